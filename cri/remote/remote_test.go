package remote_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/cri/remote"
)

func TestEndpoints(t *testing.T) {
	for endpoint, want := range map[string]string{
		"":                       remote.DefaultEndpoint,
		"/run/a.sock":            "unix:///run/a.sock",
		"unix:///run/a.sock":     "unix:///run/a.sock",
		"unix:/run/a.sock":       "unix:///run/a.sock",
		"run/a.sock":             "",
		"tcp://127.0.0.1:1":      "",
		"unix://relative/a.sock": "",
	} {
		r, err := remote.New(endpoint, remote.Options{})
		if want == "" {
			if !errors.Is(err, cri.ErrInvalid) || !strings.Contains(err.Error(), endpoint) {
				t.Errorf("%q: error %v, want %v", endpoint, err, cri.ErrInvalid)
			}
			continue
		}
		if err != nil || r.Endpoint() != want {
			t.Errorf("%q: %v, want %s", endpoint, err, want)
			continue
		}
		for range 2 {
			if err := r.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		}
		if _, err := r.Version(t.Context()); !errors.Is(err, cri.ErrUnavailable) {
			t.Errorf("Version after Close: %v", err)
		}
	}
}

// TestUnavailable: errors say where, why and what to do.
func TestUnavailable(t *testing.T) {
	dir := t.TempDir()
	missing, stale := filepath.Join(dir, "missing.sock"), filepath.Join(dir, "stale.sock")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: stale, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	listener.SetUnlinkOnClose(false)
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	for path, cause := range map[string]string{missing: "there is no socket", stale: "nobody listens"} {
		r, err := remote.New(path, remote.Options{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = r.Version(t.Context())
		if !errors.Is(err, cri.ErrUnavailable) {
			t.Errorf("%s: error %v, want %v", path, err, cri.ErrUnavailable)
			continue
		}
		for _, want := range []string{"rpc error: code = Unavailable desc = ", path, cause} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("error %q does not say %q", err, want)
			}
		}
		if d := cri.Description(err); strings.Contains(d, "rpc error") || !strings.Contains(d, cause) {
			t.Errorf("it is described as %q", d)
		}
		if _, err := r.Events(t.Context()); !errors.Is(err, cri.ErrUnavailable) {
			t.Errorf("Events: %v", err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := r.Version(ended); !errors.Is(err, context.Canceled) {
			t.Errorf("with a context that has ended: %v", err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	_ = os.Remove(stale)
}

// TestHungRuntime: a runtime that accepts connections and says nothing is not waited for forever.
func TestHungRuntime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hung.sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	client := dial(t, path)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := client.Version(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("within a short time: %v", err)
	}
	if _, err := client.Version(t.Context()); !errors.Is(err, cri.ErrUnavailable) || !strings.Contains(err.Error(), "does not speak CRI or hangs") {
		t.Errorf("with all the time: %v", err)
	}
}
