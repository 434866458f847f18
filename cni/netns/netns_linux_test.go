package netns_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/keelson-dev/keelson/cni/netns"
	"github.com/keelson-dev/keelson/internal/nettest"
)

func interfaces(t *testing.T) (text string) {
	t.Helper()
	all, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range all {
		text += fmt.Sprint(i.Name, i.Flags&net.FlagUp, " ")
	}
	return text
}

// current is the namespace that the thread is in.
func current(t *testing.T) string {
	t.Helper()
	name, err := os.Readlink("/proc/thread-self/ns/net")
	if err != nil {
		t.Error(err)
	}
	return name
}

func TestNamespace(t *testing.T) {
	nettest.Plugins(t) // root and CI
	outside := current(t)
	path := filepath.Join(nettest.Dir(t), "one")
	t.Cleanup(func() { _ = netns.Remove(path) })
	if err := netns.Check(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Check of nothing: %v", err)
	}
	if err := netns.Create(path); err != nil {
		t.Fatal(err)
	}
	if err := netns.Create(path); !errors.Is(err, fs.ErrExist) {
		t.Errorf("Create again: %v", err)
	}
	if err := netns.Check(path); err != nil {
		t.Error(err)
	}
	inside := func(want string) {
		t.Helper()
		if err := netns.Do(path, func() error {
			if got := interfaces(t); got != want {
				t.Errorf("inside there is %s, want %s", got, want)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	}
	inside("lo0 ")
	if err := netns.LoopbackUp(path); err != nil {
		t.Error(err)
	}
	inside("loup ")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { inside("loup ") })
	}
	all.Wait()
	for range 8 { // no thread that was inside comes back to serve others
		all.Go(func() {
			if got := current(t); got != outside {
				t.Errorf("outside is %s, was %s", got, outside)
			}
		})
	}
	all.Wait()
	failure := errors.New("f")
	if err := netns.Do(path, func() error { return failure }); !errors.Is(err, failure) {
		t.Errorf("Do: %v", err)
	}
	if err := netns.Do(path, func() error { runtime.Goexit(); return nil }); err == nil {
		t.Error("a function that ends its goroutine has not succeeded")
	}
	for range 2 {
		if err := netns.Remove(path); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("left: %v", err)
		}
	}
	if err := netns.Do(path, func() error { return nil }); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Do without a namespace: %v", err)
	}
}

func TestCheckOfAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := netns.Check(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Check of a file: %v", err)
	}
	if err := netns.Do(path, func() error { return nil }); err == nil {
		t.Error("a file can be entered")
	}
}

// A namespace is made, looked into and removed.
func Example() {
	dir, err := os.MkdirTemp("", "netns-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "pod")
	if err := netns.Create(path); err != nil {
		fmt.Println(err) // it takes root
		return
	}
	defer func() { _ = netns.Remove(path) }()
	if err := netns.Do(path, func() error {
		all, err := net.Interfaces()
		fmt.Println(len(all), all[0].Name)
		return err
	}); err != nil {
		fmt.Println(err)
	}
}
