package watched_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keelson-dev/keelson/authn/internal/watched"
)

var errEmpty = errors.New("empty")

func parse(data []byte) (string, error) {
	if len(data) == 0 {
		return "", errEmpty
	}
	return string(data), nil
}

func write(t *testing.T, path, data string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestOpenFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if _, err := watched.Open(path, parse, watched.Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	write(t, path, "")
	if _, err := watched.Open(path, parse, watched.Options{}); !errors.Is(err, errEmpty) || !strings.HasPrefix(err.Error(), path+": ") {
		t.Errorf("a bad file: %v", err)
	}
	if _, err := watched.Open(filepath.Dir(path), parse, watched.Options{}); err == nil || errors.Is(err, errEmpty) {
		t.Errorf("a directory, which opens but does not read: %v", err)
	}
}

// TestOpenBounds: the largest file is read, one that is a byte larger is refused.
func TestOpenBounds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	write(t, path, "")
	for size, want := range map[int64]string{16 << 20: "", 16<<20 + 1: path + ": larger than 16 MiB"} {
		if err := os.Truncate(path, size); err != nil {
			t.Fatal(err)
		}
		f, err := watched.Open(path, parse, watched.Options{})
		if want == "" && (err != nil || int64(len(f.Value())) != size) || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("%d bytes: %v, want %q", size, err, want)
		}
	}
}

// TestClosesFile: a file that is looked at for years is open only while it is read.
func TestClosesFile(t *testing.T) {
	const descriptors = "/proc/self/fd"
	if _, err := os.Stat(descriptors); err != nil {
		t.Skip("here nothing tells which files are open: ", err)
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // which closes what nobody holds, too
	path := filepath.Join(t.TempDir(), "f")
	write(t, path, "one")
	for range 3 {
		if _, err := watched.Open(path, parse, watched.Options{}); err != nil {
			t.Fatal(err)
		}
	}
	open, err := os.ReadDir(descriptors)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range open {
		if name, err := os.Readlink(filepath.Join(descriptors, d.Name())); err == nil && name == path {
			t.Errorf("the file is still open: %s", d.Name())
		}
	}
}

func TestRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	write(t, path, "one")
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		f, err := watched.Open(path, parse, watched.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- f.Run(ctx) }()
		for i, step := range []struct {
			file, want string
			told       int // lines in the log
		}{{"one", "one", 0}, {"two", "two", 1}, {"", "two", 2}, {"", "two", 2}, {"two", "two", 2}, {"", "two", 3}, {"three", "three", 4}} {
			write(t, path, step.file)
			time.Sleep(11 * time.Second)
			synctest.Wait()
			if got := f.Value(); got != step.want {
				t.Errorf("step %d: value %q, want %q", i, got, step.want)
			}
			if told := strings.Count(log.String(), "\n"); told != step.told {
				t.Errorf("step %d: the log has %d lines, want %d:\n%s", i, told, step.told, log.String())
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}
