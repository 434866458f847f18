package watched_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
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
	if err := os.Truncate(path, 17<<20); err != nil {
		t.Fatal(err)
	}
	if _, err := watched.Open(path, parse, watched.Options{}); err == nil || !strings.Contains(err.Error(), "larger than 16 MiB") {
		t.Errorf("a huge file: %v", err)
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
