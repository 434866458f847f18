package unixsocket_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/keelson-dev/keelson/kubelet/internal/unixsocket"
)

func TestLongPaths(t *testing.T) {
	root := t.TempDir()
	for name, path := range map[string]string{
		"short":        filepath.Join(root, "s"),
		"107 bytes":    filepath.Join(root, strings.Repeat("x", 107-1-len(root))),
		"108 bytes":    filepath.Join(root, strings.Repeat("y", 108-1-len(root))),
		"a deep one":   filepath.Join(root, strings.Repeat("d", 200), "e", "kubelet.sock"),
		"dots, spaces": filepath.Join(root, strings.Repeat("d", 100), "a b..", "kubelet .sock"),
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			listener, err := unixsocket.Listen(path)
			if err != nil {
				t.Fatal(err)
			}
			if info, err := os.Stat(path); err != nil || info.Mode()&fs.ModeSocket == 0 {
				t.Fatalf("no socket is at the path: %v, %v", info, err)
			}
			done := make(chan error, 1)
			go func() {
				conn, err := listener.Accept()
				if err == nil {
					_, err = io.WriteString(conn, "hello")
					err = errors.Join(err, conn.Close())
				}
				done <- err
			}()
			conn, err := unixsocket.Dial(t.Context(), path)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(conn)
			if string(got) != "hello" || err != nil {
				t.Errorf("read %q, %v", got, err)
			}
			if err := errors.Join(<-done, conn.Close(), listener.Close()); err != nil {
				t.Error(err)
			}
			if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("after Close the socket is still there: %v", err)
			}
			if err := listener.Close(); err == nil {
				t.Error("a second Close is no error")
			}
			if _, err := unixsocket.Dial(t.Context(), path); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), path) {
				t.Errorf("a socket that is gone: %v", err)
			}
		})
	}
}

func TestLongPathsThatFail(t *testing.T) {
	before := descriptors(t)
	deep := filepath.Join(t.TempDir(), strings.Repeat("d", 200), "s")
	long := filepath.Join(t.TempDir(), strings.Repeat("n", 120))
	for path, why := range map[string]string{deep: "no such file or directory", long: "invalid argument"} {
		if _, err := unixsocket.Listen(path); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("Listen(%s): %v", path, err)
		}
		if _, err := unixsocket.Dial(t.Context(), path); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("Dial(%s): %v", path, err)
		}
	}
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors are open, %d were before", after, before)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}
