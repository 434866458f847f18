package bridge_test

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"testing"

	"github.com/keelson-dev/keelson/cni"
	"github.com/keelson-dev/keelson/cni/bridge"
	"github.com/keelson-dev/keelson/cni/plugins"
	"github.com/keelson-dev/keelson/internal/nettest"
)

// ctx is a context that also clean-up functions may use.
func ctx(t testing.TB) context.Context { return context.WithoutCancel(t.Context()) }

// host moves the test to a host of its own, and has it looked at once all else is cleaned up:
// nothing may be left. It returns a directory for namespaces.
func host(t testing.TB) (dir string) {
	t.Helper()
	nettest.Plugins(t)
	nettest.Host(t)
	before := nettest.Census(t)
	dir = nettest.Dir(t)
	t.Cleanup(func() {
		if after := nettest.Census(t); after != before {
			t.Errorf("the host has changed: before\n%s\nafter\n%s", before, after)
		}
	})
	return dir
}

// node is a bridge with a network on it, as a node has it.
type node struct {
	bridge  *bridge.Bridge
	network *plugins.Network
	dir     string
	conf    string
}

// subnets are one of each family.
func subnets(number int) []netip.Prefix {
	return []netip.Prefix{
		netip.MustParsePrefix(fmt.Sprintf("10.199.%d.0/24", number)), netip.MustParsePrefix(fmt.Sprintf("fd99:%d::/64", number)),
	}
}

// describe is a node's bridge with the number in its names and its subnet.
func describe(t testing.TB, number int, dir string, options bridge.Options) *bridge.Bridge {
	t.Helper()
	options.Network = fmt.Sprintf("kltest%d", number)
	options.Bridge = fmt.Sprintf("kltest%d", number)
	options.DataDir = filepath.Join(dir, "ipam")
	options.CacheDir = filepath.Join(dir, "state")
	options.Internal = append(options.Internal, netip.MustParsePrefix("10.199.0.0/16"))
	b, err := bridge.New(subnets(number), options)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// startNode sets up a node that is gone at the end of the test.
func startNode(t testing.TB, number int, options bridge.Options) *node {
	t.Helper()
	dir := t.TempDir()
	return start(t, describe(t, number, dir, options), dir)
}

func start(t testing.TB, b *bridge.Bridge, dir string) *node {
	t.Helper()
	bins := nettest.Plugins(t)
	n := &node{bridge: b, dir: dir, conf: filepath.Join(dir, "net.d", "10-keelson.conflist")}
	if _, err := bridge.WriteFile(n.conf, b.Config()); err != nil {
		t.Fatal(err)
	}
	n.network = plugins.New(filepath.Dir(n.conf), plugins.Options{BinDirs: []string{bins}, StateDir: filepath.Join(dir, "state")})
	t.Cleanup(func() {
		if err := b.Down(ctx(t)); err != nil {
			t.Error(err)
		}
	})
	if err := b.Up(ctx(t)); err != nil {
		t.Fatal(err)
	}
	return n
}

// pod is a namespace that is attached.
type pod struct {
	cni.Attachment
	name   string
	v4, v6 netip.Addr
}

// serve has the pod tell its name at port 8080 of all its addresses.
func (p pod) serve(t testing.TB) { nettest.Serve(t, p.NetNS, ":8080", p.name) }

func at(ip netip.Addr, port uint16) string { return netip.AddrPortFrom(ip, port).String() }

// attach attaches a new namespace.
func (n *node) attach(t testing.TB, dir, name string, mappings ...cni.PortMapping) pod {
	t.Helper()
	p := pod{name: name, Attachment: cni.Attachment{
		ContainerID: name, NetNS: nettest.Namespace(t, dir, name), PortMappings: mappings,
		Pod: cni.Pod{Namespace: "default", Name: name, UID: "uid-" + name},
	}}
	t.Cleanup(func() { n.detach(t, p) })
	result, err := n.network.Add(ctx(t), p.Attachment)
	if err != nil {
		t.Fatal(err)
	}
	ips := result.PodIPs()
	if len(ips) != 2 || !ips[0].Is4() || !ips[1].Is6() {
		t.Fatalf("addresses %v in %+v", ips, result)
	}
	p.v4, p.v6 = ips[0], ips[1]
	return p
}

func (n *node) detach(t testing.TB, p pod) {
	t.Helper()
	if err := n.network.Delete(ctx(t), p.Attachment); err != nil {
		t.Error(err)
	}
}

// leased are the containers that have addresses of the node on record.
func (n *node) leased(t testing.TB) (ids []string) {
	t.Helper()
	leases, err := n.bridge.Leases()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range leases {
		ids = append(ids, l.ContainerID)
	}
	return ids
}
