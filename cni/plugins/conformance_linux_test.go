package plugins_test

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/keelson-dev/keelson/cni"
	"github.com/keelson-dev/keelson/cni/bridge"
	"github.com/keelson-dev/keelson/cni/cnitest"
	"github.com/keelson-dev/keelson/cni/netns"
	"github.com/keelson-dev/keelson/cni/plugins"
	"github.com/keelson-dev/keelson/internal/nettest"
)

// inHost has every call run in the namespace that stands in for the host, from any goroutine.
type inHost struct {
	*plugins.Network
	host string
}

func (n inHost) Add(ctx context.Context, a cni.Attachment) (r cni.Result, err error) {
	err = netns.Do(n.host, func() (failed error) { r, failed = n.Network.Add(ctx, a); return failed })
	return r, err
}

func (n inHost) Delete(ctx context.Context, a cni.Attachment) error {
	return netns.Do(n.host, func() error { return n.Network.Delete(ctx, a) })
}

func (n inHost) Check(ctx context.Context, a cni.Attachment) error {
	return netns.Do(n.host, func() error { return n.Network.Check(ctx, a) })
}

func (n inHost) Collect(ctx context.Context, live []cni.Key) error {
	return netns.Do(n.host, func() error { return n.Network.Collect(ctx, live) })
}

func TestConformance(t *testing.T) {
	bins := nettest.Plugins(t)
	for _, version := range []string{"0.4.0", "1.0.0", "1.1.0"} {
		t.Run(version, func(t *testing.T) {
			cnitest.Run(t, func(t *testing.T) cnitest.Subject {
				return subject(t, bins, version)
			})
		})
	}
}

// subject is a network of the reference plugins on a host of its own.
func subject(t *testing.T, bins, version string) cnitest.Subject {
	t.Helper()
	nettest.Host(t)
	before := nettest.Census(t)
	t.Cleanup(func() {
		if after := nettest.Census(t); after != before {
			t.Errorf("the host has changed: before\n%s\nafter\n%s", before, after)
		}
	})
	dir, pins, made := t.TempDir(), nettest.Dir(t), new(atomic.Int64)
	b, err := bridge.New([]netip.Prefix{netip.MustParsePrefix("10.197.0.0/24")}, bridge.Options{CNIVersion: version, DataDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bridge.WriteFile(filepath.Join(dir, "net.d", "10.conflist"), b.Config()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Down(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if err := b.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	network := plugins.New(filepath.Join(dir, "net.d"), plugins.Options{BinDirs: []string{bins}, StateDir: filepath.Join(dir, "state")})
	return cnitest.Subject{
		Network:   inHost{network, nettest.HostPath()},
		Namespace: func(t testing.TB) string { return nettest.Namespace(t, pins, fmt.Sprint(made.Add(1))) },
		Unmake: func(t testing.TB, path string) {
			if err := netns.Remove(path); err != nil {
				t.Error(err)
			}
		},
		Leased: func(t testing.TB) int {
			all, err := b.Leases()
			if err != nil {
				t.Error(err)
			}
			return len(all)
		},
	}
}
