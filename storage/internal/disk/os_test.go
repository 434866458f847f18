//go:build linux || darwin

package disk_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keelson-dev/keelson/storage/internal/disk"
)

// TestNoDescriptorsLeft: while clients hold all of the process's descriptors, opening files waits for free ones.
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
		synctest.Test(t, func(t *testing.T) {
			start, release := time.Now(), exhaust(t)
			time.AfterFunc(30*time.Millisecond, release)
			if err := operation(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if took := time.Since(start); took > 50*time.Millisecond {
				t.Errorf("%s: the file was there after 30 ms, but it waited for %v", name, took)
			}
			time.Sleep(time.Second)
		})
	}
}

// TestPatienceEnds: after a minute without a free descriptor, opening fails.
func TestPatienceEnds(t *testing.T) {
	path := t.TempDir()
	d := disk.At(path)
	put(t, d, "old", "")
	for name, operation := range map[string]func() error{
		"create": func() error { _, err := d.Create("new"); return err },
		"open":   func() error { _, err := d.Open("old"); return err },
		"names":  func() error { _, err := d.Names(); return err },
		"sync":   d.Sync,
		"a lock": func() error { _, err := d.Lock(); return err },
		"a new directory's lock": func() error { // it is not locked before it is durable
			_, err := disk.At(filepath.Join(path, "new")).Lock()
			return err
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			start, release := time.Now(), exhaust(t)
			err := operation()
			release()
			if at := (*os.PathError)(nil); strings.HasPrefix(name, "a new") && errors.As(err, &at) && at.Path != path {
				t.Errorf("%s: opened %s before what is above it was synced", name, at.Path)
			}
			if took := time.Since(start); !errors.Is(err, syscall.EMFILE) || took < time.Minute || took > time.Minute+time.Second {
				t.Errorf("%s: %v after %v, want %v after a minute", name, err, took, syscall.EMFILE)
			}
		})
	}
}

// exhaust takes all descriptors of the process until release is called.
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
