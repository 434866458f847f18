package batch_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keelson-dev/keelson/controllers/internal/batch"
)

// calls records calls that take a second each, of which one may fail.
type calls struct {
	mu        sync.Mutex
	fails     int
	now, most int
	made      []int
}

func (c *calls) call(i int) error {
	c.mu.Lock()
	c.made = append(c.made, i)
	c.now++
	c.most = max(c.most, c.now)
	c.mu.Unlock()
	time.Sleep(time.Second)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now--
	if i == c.fails {
		return errors.New(fmt.Sprint(i))
	}
	return nil
}

func TestInParallel(t *testing.T) {
	for limit, most := range map[int]int{-1: 5, 0: 5, 1: 1, 3: 3, 9: 5} {
		synctest.Test(t, func(t *testing.T) {
			c := calls{fails: 3}
			errs := batch.InParallel(5, limit, c.call)
			if c.most != most || len(c.made) != 5 {
				t.Errorf("limit %d: %d calls at a time, %d in all", limit, c.most, len(c.made))
			}
			if limit == 1 && !slices.IsSorted(c.made) {
				t.Errorf("called in the order %v", c.made)
			}
			for i, err := range errs {
				if (err != nil) != (i == 3) {
					t.Errorf("limit %d: call %d failed with %v", limit, i, err)
				}
			}
		})
	}
}

func TestSlowStart(t *testing.T) {
	for _, tt := range []struct{ n, fails, tried, failed int }{
		{0, -1, 0, 0}, {1, -1, 1, 0}, {6, -1, 6, 0}, {20, -1, 20, 0}, {20, 0, 1, 1}, {20, 4, 7, 1}, {6, 5, 6, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := calls{fails: tt.fails}
			tried, failed := batch.SlowStart(tt.n, 0, c.call)
			if tried != tt.tried || len(failed) != tt.failed || len(c.made) != tried {
				t.Errorf("%+v: tried %d, failed %v", tt, tried, failed)
			}
			slices.Sort(c.made)
			for i, made := range c.made {
				if i != made {
					t.Errorf("%+v: called with %v", tt, c.made)
				}
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		c := calls{fails: -1}
		began := time.Now()
		if batch.SlowStart(7, 0, c.call); time.Since(began) != 3*time.Second || c.most != 4 {
			t.Errorf("took %v, at most %d at a time", time.Since(began), c.most)
		}
	})
}
