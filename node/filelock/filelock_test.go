package filelock_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/keelson-dev/keelson/node/filelock"
)

func TestTake(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := filelock.Take(t.Context(), path, func() { t.Error("nobody has it") })
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	waits := 0
	if _, err := filelock.Take(short, path, func() { waits++ }); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("taken twice: %v", err)
	}
	if waits != 1 {
		t.Errorf("told %d times", waits)
	}
	taken := make(chan error)
	go func() {
		unlock, err := filelock.Take(t.Context(), path, unlock) // given back when the other one waits
		if err == nil {
			unlock()
		}
		taken <- err
	}()
	if err := <-taken; err != nil {
		t.Error(err)
	}
}

func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	unlock, err := filelock.Take(context.Background(), filepath.Join(dir, "lock"), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer unlock()
	fmt.Println("alone")
	// Output: alone
}
