// Package unixsocket listens and connects at paths that may be too long for an address of a Unix socket, which on Linux has
// room for 107 bytes. The kubelet's directory is the user's choice, and pods that mount it see its sockets at shorter paths.
//
// Elsewhere than on Linux such paths fail.
package unixsocket

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
)

// limit is the length of a path that an address of Linux has no room for.
const limit = 108

// TooLong reports whether a path is too long for an address.
func TooLong(path string) bool { return len(path) >= limit }

// Listen listens at an absolute path. The listener's Close removes the socket.
func Listen(path string) (net.Listener, error) {
	dir, short, err := shorten(path)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("unix", short)
	if err != nil {
		return nil, fmt.Errorf("listening at %s (%d bytes): %w", path, len(path), closing(dir, err))
	}
	if dir == nil {
		return listener, nil
	}
	return &longListener{Listener: listener, dir: dir}, nil
}

// Dial connects to a socket at an absolute path.
func Dial(ctx context.Context, path string) (net.Conn, error) {
	dir, short, err := shorten(path)
	if err != nil {
		return nil, err
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", short)
	if err != nil {
		err = fmt.Errorf("connecting to %s (%d bytes): %w", path, len(path), err)
	}
	return conn, closing(dir, err)
}

// shorten returns a path for an address. If that is not the given one, it leads through the directory returned, which the
// caller closes when the path has been used.
func shorten(path string) (dir *os.File, short string, err error) {
	if !TooLong(path) {
		return nil, path, nil
	}
	dir, err = os.Open(filepath.Dir(path))
	if err != nil {
		return nil, "", err
	}
	return dir, fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path)), nil
}

// closing closes a directory, if there is one, and returns err.
func closing(dir *os.File, err error) error {
	if dir != nil {
		_ = dir.Close() // It was only read.
	}
	return err
}

// longListener keeps the directory through which it removes its socket.
type longListener struct {
	net.Listener
	dir  *os.File
	once sync.Once
}

// Close implements net.Listener.
func (l *longListener) Close() error {
	err := l.Listener.Close()
	l.once.Do(func() { _ = closing(l.dir, nil) })
	return err
}
