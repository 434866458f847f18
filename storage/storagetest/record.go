package storagetest

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
)

// recorder is a testing.TB that records failures instead of reporting them.
type recorder struct {
	testing.TB
	ctx context.Context //nolint:containedctx // it is what Context returns

	mu       sync.Mutex
	failed   bool
	messages []string
	cleanups []func()
}

// record runs a test, which may end its goroutine, and returns its failures.
func record(t testing.TB, test func(testing.TB)) []string {
	ctx, cancel := context.WithCancel(t.Context())
	r := &recorder{TB: t, ctx: ctx}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer r.clean()
		defer cancel()
		test(r)
	}()
	<-done
	if r.failed && len(r.messages) == 0 {
		return []string{"it failed without a message"}
	}
	return r.messages
}

func (r *recorder) clean() {
	for {
		r.mu.Lock()
		n := len(r.cleanups)
		if n == 0 {
			r.mu.Unlock()
			return
		}
		last := r.cleanups[n-1]
		r.cleanups = r.cleanups[:n-1]
		r.mu.Unlock()
		last()
	}
}

func (r *recorder) fail(message string) {
	for skip := 2; ; skip++ {
		_, file, line, ok := runtime.Caller(skip)
		if ok && filepath.Base(file) == "suite.go" {
			continue // a check shared by cases; its caller is more specific
		}
		if ok {
			message = fmt.Sprintf("%s:%d: %s", filepath.Base(file), line, message)
		}
		break
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = true
	r.messages = append(r.messages, message)
}

func (r *recorder) Helper() {}

func (r *recorder) Context() context.Context { return r.ctx }

func (r *recorder) Cleanup(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, f)
}

func (r *recorder) Fail() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = true
}

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

func (r *recorder) FailNow() {
	r.Fail()
	runtime.Goexit()
}

func (r *recorder) Error(args ...any) { r.fail(fmt.Sprint(args...)) }

func (r *recorder) Errorf(format string, args ...any) { r.fail(fmt.Sprintf(format, args...)) }

func (r *recorder) Fatal(args ...any) {
	r.fail(fmt.Sprint(args...))
	runtime.Goexit()
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.fail(fmt.Sprintf(format, args...))
	runtime.Goexit()
}
