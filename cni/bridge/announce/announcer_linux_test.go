package announce_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/keelson-dev/keelson/cni"
	"github.com/keelson-dev/keelson/cni/bridge"
	"github.com/keelson-dev/keelson/cni/bridge/announce"
	"github.com/keelson-dev/keelson/cni/netns"
	"github.com/keelson-dev/keelson/cni/plugins"
	"github.com/keelson-dev/keelson/internal/nettest"
)

// world is a host with a bridge whose pods get three addresses in turn.
type world struct {
	t       *testing.T
	bridge  *bridge.Bridge
	network *plugins.Network
	dir     string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	bins, dir := nettest.Plugins(t), t.TempDir()
	nettest.Host(t)
	w := &world{t: t, dir: nettest.Dir(t)}
	var err error
	w.bridge, err = bridge.New([]netip.Prefix{netip.MustParsePrefix("10.199.9.0/29"), netip.MustParsePrefix("fd99:9::/125")}, bridge.Options{
		Network: "klann", Bridge: "klann", DataDir: filepath.Join(dir, "ipam"), CacheDir: filepath.Join(dir, "state"),
	})
	if err != nil {
		t.Fatal(err)
	}
	conf := filepath.Join(dir, "net.d", "10-keelson.conflist")
	if _, err := bridge.WriteFile(conf, w.bridge.Config()); err != nil {
		t.Fatal(err)
	}
	w.network = plugins.New(filepath.Dir(conf), plugins.Options{BinDirs: []string{bins}, StateDir: filepath.Join(dir, "state")})
	ctx := context.WithoutCancel(t.Context())
	t.Cleanup(func() {
		if err := w.bridge.Down(ctx); err != nil {
			t.Error(err)
		}
	})
	if err := w.bridge.Up(ctx); err != nil {
		t.Fatal(err)
	}
	return w
}

// announce runs an announcer until the test ends.
func (w *world) announce() {
	ctx, cancel := context.WithCancel(w.t.Context())
	host, done := nettest.HostPath(), make(chan error, 1)
	go func() {
		done <- netns.Do(host, func() error { return announce.New(w.bridge, announce.Options{}).Run(ctx) })
	}()
	w.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Error(err)
		}
	})
}

// pod attaches a new pod. It returns its addresses, the hardware address behind them, its namespace and its end.
func (w *world) pod(name string) (ips []netip.Addr, hardware, ns string, end func()) {
	w.t.Helper()
	a := cni.Attachment{
		ContainerID: name, NetNS: nettest.Namespace(w.t, w.dir, name), Pod: cni.Pod{Namespace: "default", Name: name, UID: "uid-" + name},
	}
	gone := false
	end = func() {
		if err := w.network.Delete(context.WithoutCancel(w.t.Context()), a); err != nil && !gone {
			w.t.Error(err)
		}
		gone = true
	}
	w.t.Cleanup(end)
	result, err := w.network.Add(w.t.Context(), a)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, i := range result.Interfaces {
		if i.Sandbox != "" {
			hardware = i.MAC
		}
	}
	return result.PodIPs(), hardware, a.NetNS, end
}

// knows waits until a namespace's own table has the hardware address of an address, without a packet to it.
func (w *world) knows(ns, device string, ip netip.Addr, hardware string) {
	w.t.Helper()
	var got string
	for range 200 {
		got = nettest.Run(w.t, ns, "ip", "neighbor", "show", ip.String(), "dev", device)
		if strings.Contains(got, hardware) {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	w.t.Errorf("%q has %s at %q, it is at %s", ns, ip, got, hardware)
}

// TestAddressesUsedAgain: whoever knew a pod finds the one that gets its addresses, on the host and in other pods.
func TestAddressesUsedAgain(t *testing.T) {
	w := newWorld(t)
	_, _, other, _ := w.pod("other")
	w.announce()
	seen := map[netip.Addr]int{}
	for i := range 9 {
		name := fmt.Sprintf("pod%d", i)
		ips, hardware, ns, end := w.pod(name)
		nettest.Serve(t, ns, ":8080", name)
		for _, ip := range ips {
			w.knows("", w.bridge.Device(), ip, hardware)
			if seen[ip]++; seen[ip] > 1 {
				w.knows(other, "eth0", ip, hardware)
			}
			at := netip.AddrPortFrom(ip, 8080).String()
			for _, from := range []string{"", other} {
				if got, err := nettest.Fetch(t, from, at); err != nil || !strings.HasPrefix(got, name) {
					t.Errorf("from %q: %q, %v", from, got, err)
				}
			}
		}
		end()
	}
	if len(seen) > 10 {
		t.Errorf("no address was used again: %v", seen)
	}
}

// TestAttachedBefore: an announcer that starts announces the pods that there are.
func TestAttachedBefore(t *testing.T) {
	w := newWorld(t)
	ips, hardware, _, _ := w.pod("before")
	for _, ip := range ips {
		nettest.Run(t, "", "ip", "neighbor", "replace", ip.String(), "lladdr", "02:00:00:00:00:01", "dev", w.bridge.Device(), "nud", "stale")
	}
	w.announce()
	for _, ip := range ips {
		w.knows("", w.bridge.Device(), ip, hardware)
	}
}

// TestDirectoryReplaced: pods are announced, too, after the directory of results was not there for a while.
func TestDirectoryReplaced(t *testing.T) {
	w := newWorld(t)
	w.announce()
	first, hardware, _, _ := w.pod("first")
	w.knows("", w.bridge.Device(), first[0], hardware) // it watches
	results := w.bridge.ResultDir()
	if err := os.Rename(results, results+".old"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"second", "third"} { // the runtime makes the directory
		ips, hardware, _, _ := w.pod(name)
		for _, ip := range ips {
			w.knows("", w.bridge.Device(), ip, hardware)
		}
	}
}

// TestNoDirectory: results cannot be watched.
func TestNoDirectory(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("packet sockets need root")
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := bridge.New([]netip.Prefix{netip.MustParsePrefix("10.199.9.0/29")}, bridge.Options{CacheDir: file})
	if err != nil {
		t.Fatal(err)
	}
	if err := announce.New(b, announce.Options{}).Run(t.Context()); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("%v", err)
	}
}
