package main

import (
	"bytes"
	"strings"
	"sync"
	"testing"
)

// screen is a terminal that several goroutines write to.
type screen struct {
	mu sync.Mutex
	bytes.Buffer
}

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Buffer.Write(b)
}

func TestRollout(t *testing.T) {
	var out screen
	if err := run(t.Context(), &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, want := range []string{
		"three nodes are ready", "Scaled up replica set nginx-", "Successfully assigned default/nginx-",
		"rolled out: 3 of 3 pods available", "no pod is left",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("nothing said %q:\n%s", want, out.String())
		}
	}
}
