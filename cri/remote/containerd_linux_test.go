package remote_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"github.com/keelson-dev/keelson/cni/bridge"
	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/cri/runtimetest"
	"github.com/keelson-dev/keelson/internal/containerd"
	"github.com/keelson-dev/keelson/internal/containerd/containerdtest"
	"github.com/keelson-dev/keelson/internal/ociimage"
)

func shell(script string) runtimetest.Program {
	return runtimetest.Program{Image: containerdtest.Busybox, Command: []string{"sh", "-c", script}}
}

// settled is a program that says when it has set its traps.
func settled(trap, loop string) runtimetest.Program {
	p := shell(trap + "; touch /ready; " + loop)
	p.Ready = []string{"test", "-e", "/ready"}
	return p
}

// registry serves an image under the names of two registries, one of which wants to know who asks.
func registry(t *testing.T) (mirrors map[string][]string) {
	t.Helper()
	archive, err := ociimage.Build(t.Context(), t.TempDir(), ociimage.Recipe{
		Name: "tiny", Version: "1",
		Images: []ociimage.Image{{References: []string{"public.example/library/tiny:1", "private.example/library/tiny:1"}}},
		Fill: func(_ context.Context, _ string, tree *ociimage.Tree) error {
			tree.File("file", 0o644, []byte("content"))
			return nil
		},
	}, testWriter{t})
	if err != nil {
		t.Fatal(err)
	}
	images, err := ociimage.NewRegistry(archive)
	if err != nil {
		t.Fatal(err)
	}
	serve := func(h http.Handler) string {
		server := httptest.NewServer(h)
		t.Cleanup(server.Close)
		return server.URL
	}
	return map[string][]string{
		"public.example":  {serve(images)},
		"private.example": {serve(ociimage.Private(images, "user", "password"))},
	}
}

// network makes a bridge of the test's own, with port mappings, and returns the directory of its
// configuration.
func network(t *testing.T) (confDir string) {
	t.Helper()
	dir := t.TempDir()
	var random [4]byte
	_, _ = rand.Read(random[:]) // never fails
	name := fmt.Sprintf("cri%x", random)
	subnet := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 128 | random[0]&63, random[1], 0}), 24)
	b, err := bridge.New([]netip.Prefix{subnet}, bridge.Options{Bridge: name, Network: name, DataDir: filepath.Join(dir, "addresses")})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		left, err := b.Leases()
		if err != nil || len(left) > 0 {
			t.Errorf("addresses that were not given back: %v, %v", left, err)
		}
		if err := b.Down(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if _, err := bridge.WriteFile(filepath.Join(dir, "10-bridge.conflist"), b.Config()); err != nil {
		t.Fatal(err)
	}
	return dir
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(b []byte) (int, error) {
	w.t.Logf("%s", b)
	return len(b), nil
}

// TestContainerd holds the client and containerd to the contract.
func TestContainerd(t *testing.T) {
	daemon := containerdtest.Start(t, containerdtest.Options{Containerd: containerd.Options{Mirrors: registry(t), CNIConfDir: network(t)}})
	client := dial(t, daemon.Socket())
	runtimetest.Run(t, func(*testing.T) runtimetest.Runtime { return client }, runtimetest.Options{
		Sleeper:      settled("trap 'exit 0' TERM", "while :; do sleep 0.1; done"),
		Stubborn:     settled("trap '' TERM", "while :; do sleep 1; done"),
		Failure:      shell("exit 3"),
		Success:      shell("exit 0"),
		MissingImage: "public.example/no/such:1",
		Pullable:     "public.example/library/tiny:1",
		Private:      "private.example/library/tiny:1",
		Auth:         &cri.Auth{Username: "user", Password: "password"},
		Exec:         []string{"echo", "hello"}, ExecOutput: "hello\n",
		Shell:   containerdtest.Busybox,
		Connect: connector{},
		Prepare: func(c *cri.SandboxConfig) {
			c.CgroupParent = filepath.Join(daemon.CgroupRoot(), filepath.Base(c.Metadata.UID))
		},
		Restart: func(t *testing.T, away func()) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := daemon.Kill(ctx); err != nil {
				t.Fatal(err)
			}
			away()
			if err := daemon.Start(ctx); err != nil {
				t.Fatal(err)
			}
		},
	})
}
