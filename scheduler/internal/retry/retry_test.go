package retry_test

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/keelson-dev/keelson/scheduler/internal/retry"
)

func TestUnwell(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{apierrors.NewInternalError(errors.New("x")), true},
		{apierrors.NewServiceUnavailable("x"), true},
		{fmt.Errorf("dial: %w", syscall.ECONNREFUSED), true},
		{apierrors.NewBadRequest("x"), false},
		{errors.New("x"), false},
		{nil, false},
	} {
		if retry.Unwell(c.err) != c.want {
			t.Errorf("%v: want %v", c.err, c.want)
		}
	}
}

func TestDo(t *testing.T) {
	yes, no := func(error) bool { return true }, func(error) bool { return false }
	for name, c := range map[string]struct {
		again func(error) bool
		fails int // so many tries fail
		ends  time.Duration
		want  int // tries
		took  time.Duration
	}{
		"at once":           {yes, 0, time.Hour, 1, 0},
		"the second time":   {yes, 1, time.Hour, 2, 10 * time.Millisecond},
		"the third time":    {yes, 2, time.Hour, 3, 60 * time.Millisecond},
		"the fourth time":   {yes, 3, time.Hour, 4, 310 * time.Millisecond},
		"never":             {yes, 9, time.Hour, 4, 310 * time.Millisecond},
		"not worth a try":   {no, 1, time.Hour, 1, 0},
		"until it is ended": {yes, 9, 40 * time.Millisecond, 2, 40 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), c.ends)
			defer cancel()
			began, tries := time.Now(), 0
			err := retry.Do(ctx, c.again, func() error {
				if tries++; tries > c.fails {
					return nil
				}
				return fmt.Errorf("try %d", tries)
			})
			if tries != c.want || time.Since(began) != c.took {
				t.Errorf("%s: %d tries in %v, want %d in %v", name, tries, time.Since(began), c.want, c.took)
			}
			if want := fmt.Sprintf("try %d", tries); tries > c.fails && err != nil || tries <= c.fails && (err == nil || err.Error() != want) {
				t.Errorf("%s: after %d tries: %v", name, tries, err)
			}
		})
	}
}
