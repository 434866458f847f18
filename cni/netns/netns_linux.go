package netns

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// Create creates a namespace and pins it at the path, whose directory is created if need be. It fails with fs.ErrExist
// if the path exists.
func Create(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDONLY, 0o444)
	if err != nil {
		return err
	}
	err = file.Close()
	if err == nil {
		err = onThread(func() error {
			if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
				return err
			}
			return unix.Mount(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()), path, "", unix.MS_BIND, "")
		})
	}
	if err != nil {
		return fmt.Errorf("network namespace %s: %w", path, errors.Join(err, os.Remove(path)))
	}
	return nil
}

// Remove unpins the namespace and removes the path. The namespace ends when nothing else holds it. Remove succeeds if
// nothing is at the path.
func Remove(path string) error {
	for {
		err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, fs.ErrNotExist) {
			break // nothing is mounted there any more
		}
		if err != nil {
			return fmt.Errorf("network namespace %s: %w", path, err)
		}
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Check returns nil if there is a network namespace at the path, or else an error that wraps fs.ErrNotExist.
func Check(path string) error {
	var at unix.Statfs_t
	if err := unix.Statfs(path, &at); err != nil {
		return fmt.Errorf("network namespace %q: %w", path, err)
	}
	if at.Type != unix.NSFS_MAGIC && at.Type != unix.PROC_SUPER_MAGIC {
		return fmt.Errorf("network namespace %q: %w: there is something else", path, fs.ErrNotExist)
	}
	return nil
}

// Do runs f on a thread of its own inside the namespace. Sockets that f itself opens belong to
// the namespace for good; goroutines that it starts run outside.
func Do(path string, f func() error) error {
	ns, err := os.Open(path)
	if err != nil {
		return err
	}
	defer ns.Close() //nolint:errcheck // it is only read
	return onThread(func() error {
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("entering network namespace %s: %w", path, err)
		}
		return f()
	})
}

// LoopbackUp brings up the loopback interface of the namespace.
func LoopbackUp(path string) error {
	return Do(path, func() error {
		socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(socket) //nolint:errcheck // nothing was written
		request, err := unix.NewIfreq("lo")
		if err != nil {
			return err
		}
		if err := unix.IoctlIfreq(socket, unix.SIOCGIFFLAGS, request); err != nil {
			return fmt.Errorf("flags of the loopback interface: %w", err)
		}
		request.SetUint16(request.Uint16() | unix.IFF_UP)
		if err := unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, request); err != nil {
			return fmt.Errorf("bringing up the loopback interface: %w", err)
		}
		return nil
	})
}

// onThread runs f on a thread that ends with it: a thread that has entered another namespace must not be reused.
func onThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked
		done <- f()
	}()
	err, returned := <-done
	if !returned {
		return errors.New("the function ended its goroutine")
	}
	return err
}
