//go:build linux || darwin

package disk_test

import (
	"errors"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/keelson-dev/keelson/storage/internal/disk"
)

// TestNoDescriptorsLeft: while clients hold all of the process's descriptors, the files wait for some to come back.
func TestNoDescriptorsLeft(t *testing.T) {
	d := disk.At(t.TempDir())
	lock, err := d.Lock()
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	old, err := d.Create("old")
	if err != nil {
		t.Fatal(err)
	}
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	for name, operation := range map[string]func() error{
		"create": func() error {
			file, err := d.Create("new")
			if err == nil {
				err = file.Close()
			}
			return err
		},
		"append": func() error {
			file, err := d.Append("old")
			if err == nil {
				err = file.Close()
			}
			return err
		},
		"open": func() error {
			source, err := d.Open("old")
			if err == nil {
				err = source.Close()
			}
			return err
		},
		"names": func() error {
			names, err := d.Names()
			if err == nil && !slices.Contains(names, "old") {
				err = errors.New("a file is missing")
			}
			return err
		},
		"sync": d.Sync,
	} {
		release := exhaust(t)
		timer := time.AfterFunc(100*time.Millisecond, release)
		if err := operation(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		timer.Stop()
		release()
	}
}

// exhaust takes all descriptors that the process may have, until release is called.
func exhaust(t *testing.T) (release func()) {
	t.Helper()
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	few := before
	few.Cur = 100
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	var held []*os.File
	for {
		file, err := os.Open(os.DevNull)
		if err != nil {
			break
		}
		held = append(held, file)
	}
	done := make(chan struct{}, 1)
	done <- struct{}{}
	return func() {
		<-done
		defer func() { done <- struct{}{} }()
		for _, file := range held {
			_ = file.Close()
		}
		held = nil
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
			t.Error(err)
		}
	}
}
