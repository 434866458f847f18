package nftables_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/keelson-dev/keelson/cni/netns"
	"github.com/keelson-dev/keelson/internal/nettest"
	"github.com/keelson-dev/keelson/networkpolicy/internal/random"
	"github.com/keelson-dev/keelson/networkpolicy/nftables"
)

// needs skips the test where networks cannot be made, and fails it in CI.
func needs(t testing.TB) {
	t.Helper()
	lacks := ""
	if os.Getuid() != 0 {
		lacks = "networks need root"
	} else if _, err := exec.LookPath("ip"); err != nil {
		lacks = err.Error()
	}
	if lacks != "" && os.Getenv("CI") == "true" {
		t.Fatal(lacks)
	}
	if lacks != "" {
		t.Skip(lacks)
	}
}

// site is a network namespace with its addresses: a pod, or the world outside.
type site struct {
	name, ns string
	v4, v6   netip.Addr
}

// network is a host with pods on a bridge, others behind links of their own, as if on other nodes, and a world outside.
type network struct {
	t     testing.TB
	host  string
	sites []site
	dir   string
	port  int // from which the next packets come
	sctp  *arrivals
}

// bridged is how many of the pods are on the bridge.
const bridged = 3

// newNetwork makes a host in a network namespace of its own, with so many pods. All answer at all ports of random.Ports.
func newNetwork(t testing.TB, pods int) *network {
	t.Helper()
	needs(t)
	nettest.Host(t)
	n := &network{t: t, dir: nettest.Dir(t), host: nettest.HostPath(), port: 20000, sctp: newArrivals()}
	nettest.Run(t, "", "sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
	n.forgetSoon()
	if err := nftables.PoliceBridges(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	nettest.Run(t, "", "ip", "link", "add", "pods", "type", "bridge")
	t.Cleanup(func() { nettest.Run(t, "", "ip", "link", "delete", "dev", "pods") })
	n.address("", "pods", netip.MustParseAddr("10.64.0.254"), netip.MustParseAddr("fd64::254"))
	n.link("outside", "", netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1"))
	for i := range pods {
		name := fmt.Sprintf("pod-%d", i)
		if i < bridged {
			n.link(name, "pods", netip.MustParseAddr(fmt.Sprintf("10.64.0.%d", i)), netip.MustParseAddr(fmt.Sprintf("fd64::%d", i)))
		} else {
			n.link(name, "", netip.MustParseAddr(fmt.Sprintf("10.64.%d.1", i)), netip.MustParseAddr(fmt.Sprintf("fd64:%d::1", i)))
		}
	}
	for _, s := range n.sites {
		for _, port := range append(random.Ports(), 8500) {
			n.serve(s, port)
		}
		n.listenSCTP(s)
	}
	return n
}

// forgetSoon keeps the kernel from filling up with connections.
func (n *network) forgetSoon() {
	for _, name := range []string{"udp_timeout", "udp_timeout_stream", "tcp_timeout_close", "sctp_timeout_closed", "sctp_timeout_cookie_wait", "generic_timeout"} {
		if path := "/proc/sys/net/netfilter/nf_conntrack_" + name; exists(path) {
			nettest.Run(n.t, "", "sysctl", "-qw", "net.netfilter.nf_conntrack_"+name+"=2")
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// address gives a device addresses and sets it up.
func (n *network) address(ns, device string, v4, v6 netip.Addr) {
	nettest.Run(n.t, ns, "ip", "address", "add", v4.String()+"/24", "dev", device)
	nettest.Run(n.t, ns, "ip", "address", "add", v6.String()+"/64", "dev", device, "nodad")
	nettest.Run(n.t, ns, "ip", "link", "set", "dev", device, "up")
}

// link makes a namespace whose address is the one after the given ones. These are the host's at the link, unless the
// namespace is on a bridge.
func (n *network) link(name, bridge string, v4, v6 netip.Addr) {
	t := n.t
	s := site{name: name, ns: nettest.Namespace(t, n.dir, name), v4: v4.Next(), v6: v6.Next()}
	nettest.Run(t, "", "ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", s.ns)
	t.Cleanup(func() { nettest.Run(t, "", "ip", "link", "delete", "dev", name) })
	gateway4, gateway6 := v4, v6
	if bridge == "" {
		n.address("", name, v4, v6)
	} else {
		gateway4, gateway6 = netip.MustParseAddr("10.64.0.254"), netip.MustParseAddr("fd64::254")
		nettest.Run(t, "", "ip", "link", "set", "dev", name, "master", bridge, "up")
		nettest.Run(t, "", "ip", "link", "set", "dev", name, "type", "bridge_slave", "hairpin", "on")
	}
	nettest.Run(t, s.ns, "ip", "link", "set", "dev", "lo", "up")
	n.address(s.ns, "eth0", s.v4, s.v6)
	nettest.Run(t, s.ns, "ip", "route", "add", "default", "via", gateway4.String())
	nettest.Run(t, s.ns, "ip", "-6", "route", "add", "default", "via", gateway6.String())
	n.sites = append(n.sites, s)
}

// serve answers connections and datagrams to a port of a site.
func (n *network) serve(s site, port uint16) {
	var l net.Listener
	var c net.PacketConn
	err := netns.Do(s.ns, func() (err error) {
		if l, err = net.Listen("tcp", fmt.Sprintf(":%d", port)); err != nil {
			return err
		}
		c, err = net.ListenPacket("udp", fmt.Sprintf(":%d", port))
		return err
	})
	if err != nil {
		n.t.Fatal(err)
	}
	done := make(chan struct{}, 2)
	go func() {
		defer func() { done <- struct{}{} }()
		for {
			accepted, err := l.Accept()
			if err != nil {
				return
			}
			_ = accepted.Close()
		}
	}()
	go func() {
		defer func() { done <- struct{}{} }()
		buf := make([]byte, 64)
		for {
			size, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = c.WriteTo(buf[:size], from)
		}
	}()
	n.t.Cleanup(func() { _, _ = l.Close(), c.Close(); <-done; <-done })
}

// site finds one by its name.
func (n *network) site(name string) site {
	return n.sites[slices.IndexFunc(n.sites, func(s site) bool { return s.name == name })]
}

// at finds one by its address.
func (n *network) at(a netip.Addr) site {
	return n.sites[slices.IndexFunc(n.sites, func(s site) bool { return s.v4 == a || s.v6 == a })]
}

// pods are the addresses of those that are pods.
func (n *network) pods() (all [][]netip.Addr) {
	for _, s := range n.sites {
		if s.name != "outside" {
			all = append(all, []netip.Addr{s.v4, s.v6})
		}
	}
	return all
}

// writer is one for the host, whose table is removed at the end.
func (n *network) writer(t testing.TB) *nftables.Writer {
	t.Helper()
	var w *nftables.Writer
	err := netns.Do(n.host, func() (err error) {
		w, err = nftables.New(nftables.Options{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Remove(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}
