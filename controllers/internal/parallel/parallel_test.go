package parallel_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keelson-dev/keelson/controllers/internal/parallel"
)

func TestEach(t *testing.T) {
	for limit, want := range map[int]time.Duration{0: time.Second, 1: 10 * time.Second, 4: 3 * time.Second, 10: time.Second, 20: time.Second} {
		synctest.Test(t, func(t *testing.T) {
			var running, most atomic.Int32
			start := time.Now()
			errs := parallel.Each(10, limit, func(i int) error {
				if n := running.Add(1); n > most.Load() {
					most.Store(n)
				}
				time.Sleep(time.Second)
				running.Add(-1)
				if i%2 == 0 {
					return fmt.Errorf("%d", i)
				}
				return nil
			})
			if took := time.Since(start); took != want {
				t.Errorf("limit %d: took %v, want %v", limit, took, want)
			}
			for i, err := range errs {
				if (err != nil) != (i%2 == 0) || err != nil && err.Error() != fmt.Sprint(i) {
					t.Errorf("limit %d: error %d is %v", limit, i, err)
				}
			}
		})
	}
	if errs := parallel.Each(0, 0, nil); len(errs) != 0 {
		t.Errorf("nothing fails with %v", errs)
	}
}
