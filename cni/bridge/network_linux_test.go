package bridge_test

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"testing"

	"github.com/keelson-dev/keelson/cni"
	"github.com/keelson-dev/keelson/cni/bridge"
	"github.com/keelson-dev/keelson/cni/internal/nettest"
	"github.com/keelson-dev/keelson/cni/plugins"
)

// node is a bridge with a network on it, as a node has it.
type node struct {
	bridge  *bridge.Bridge
	network *plugins.Network
	dir     string
	conf    string
}

// startNode sets up a node that is gone at the end of the test.
func startNode(t testing.TB, number int, options bridge.Options) *node {
	t.Helper()
	bins := nettest.Plugins(t)
	dir := t.TempDir()
	options.Network = fmt.Sprintf("kltest%d", number)
	options.Bridge = fmt.Sprintf("kltest%d", number)
	options.DataDir = filepath.Join(dir, "ipam")
	options.Internal = append(options.Internal, netip.MustParsePrefix("10.199.0.0/16"))
	b, err := bridge.New([]netip.Prefix{netip.MustParsePrefix(fmt.Sprintf("10.199.%d.0/24", number))}, options)
	if err != nil {
		t.Fatal(err)
	}
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

// attach attaches a new namespace and returns its path and address.
func (n *node) attach(t testing.TB, dir, name string, mappings ...cni.PortMapping) (ns string, ip netip.Addr) {
	t.Helper()
	ns = nettest.Namespace(t, dir, name)
	a := cni.Attachment{ContainerID: name, NetNS: ns, PortMappings: mappings, Pod: cni.Pod{Namespace: "default", Name: name, UID: "uid-" + name}}
	t.Cleanup(func() {
		if err := n.network.Delete(ctx(t), a); err != nil {
			t.Error(err)
		}
	})
	result, err := n.network.Add(ctx(t), a)
	if err != nil {
		t.Fatal(err)
	}
	ips := result.PodIPs()
	if len(ips) != 1 {
		t.Fatalf("addresses %v in %+v", ips, result)
	}
	return ns, ips[0]
}

func TestThreePodsReachEachOtherAndTheHost(t *testing.T) {
	n, dir := startNode(t, 1, bridge.Options{}), nettest.Dir(t)
	type pod struct {
		name, ns, address string
		ip                netip.Addr
	}
	var pods []pod
	for _, name := range []string{"one", "two", "three"} {
		p := pod{name: name}
		p.ns, p.ip = n.attach(t, dir, name)
		p.address = nettest.Serve(t, p.ns, netip.AddrPortFrom(p.ip, 8080).String(), name)
		pods = append(pods, p)
	}
	gateway := n.bridge.Gateways()[0].Addr().String()
	host := nettest.Serve(t, "", gateway+":0", "host")
	for _, from := range pods {
		for _, to := range pods {
			nettest.Hears(t, from.ns, to.address, nettest.Greeting(to.name, from.ip.String()))
		}
		nettest.Hears(t, from.ns, host, nettest.Greeting("host", from.ip.String()))
		nettest.Hears(t, "", from.address, nettest.Greeting(from.name, gateway))
		loopback := nettest.Serve(t, from.ns, "127.0.0.1:0", "itself")
		nettest.Hears(t, from.ns, loopback, nettest.Greeting("itself", "127.0.0.1"))
	}
}
