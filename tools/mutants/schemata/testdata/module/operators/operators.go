// Package operators has a function for each operator, and for each thing that is not changed.
package operators

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"
)

const resync = 10 * time.Minute

var table = map[string]bool{"a": true}

var retries, wait = 3, 2 * time.Second

func conditions(a, b, c bool, n int) int {
	if a && b && c || !a {
		return 1
	}
	for n < 10 {
		n++
	}
	switch {
	case n == 11, !b:
		return n
	}
	return len("constant") + n
}

func comparisons(x, y int, s string, d, e time.Duration) bool {
	less := x < y
	more := x+1 >= y-x
	if d > e && s < "m" {
		return s == "l"
	}
	return less != more || !(x == y)
}

func inferred(n uint, f float64) bool { return 1<<n > 5 && f*2 <= 1 && len("four") < int(n) }

func fails(ok bool) (int, error) {
	if !ok {
		return 0, errors.New("not ok")
	}
	return 7, nil
}

func passes(w io.Writer, ok bool) error {
	if _, err := fails(ok); err != nil {
		return fmt.Errorf("fails: %w", err)
	}
	_, err := w.Write(nil)
	return err
}

func statements(ch chan int, m map[string]int, f func()) {
	f()
	m["a"] = 1
	m["b"] += 2
	m["c"]++
	ch <- 1
	defer f()
	go f()
	_ = m
	x := 1
	_ = x
	delete(m, "a")
}

func leaves(list []int) (sum int) {
outer:
	for _, n := range list {
		if n == 0 {
			continue
		}
		switch n {
		case 1:
			break outer
		case 2, 3:
			sum += n
		case 4:
		default:
			if n > 100 {
				break
			}
			sum++
		}
		if n < 0 {
			return
		}
		sum--
	}
	if sum < 0 {
		return 0
	}
	return sum
}

func kind(v any) string {
	switch v := v.(type) {
	case int, string:
		_ = v
		return "known"
	case error:
		panic(v)
	}
	return ""
}

func needed(b bool) int {
	if b {
		return 1
	} else {
		return 2
	}
}

func tail(b bool, f func()) {
	if b {
		f()
		return
	}
	for {
		if b {
			continue
		}
	}
}

func durations(f func(time.Duration)) time.Duration {
	f(resync)
	f(0)
	f(time.Duration(retries) * time.Second)
	return wait + 5*time.Second
}

func generic[T ~int | ~int64](a, b T, list []T) (T, bool) {
	if a < b {
		return list[1] + a, true
	}
	return b, false
}

type number int

func (n *number) method(list []int, mode int) []int {
	*n = 5
	f := func() error { return errors.Join() }
	_ = f()
	if mode == 0o644 {
		mode = 0o600
	}
	return list[1:]
}

func (n number) String() string {
	if n > 3 {
		return "many"
	}
	return "few"
}

type locked struct {
	mu sync.Mutex
	c  io.Closer
}

func (l *locked) nothing(log *slog.Logger, n int) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.c.Close()
	log.Info("n", "more", n+1 > 2)
	if l.c == nil {
		panic("impossible")
	}
	t := time.NewTimer(wait)
	t.Stop()
	return make([]byte, 0, n+1)
}

func find(list []int, v any) (int, bool, error) {
	n, ok := v.(int)
	if !ok {
		return 0, false, fmt.Errorf("a %T is no int", v)
	}
	found := false
	if len(list) == n {
		found = true
	}
	at, ok := index(list)
	return at, ok && found, nil
}

func index(list []int) (int, bool) {
	if list == nil {
		return 7, false
	}
	return 8, true
}
