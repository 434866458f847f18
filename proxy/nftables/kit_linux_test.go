package nftables_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/cni/netns"
	"github.com/keelson-dev/keelson/internal/nettest"
	"github.com/keelson-dev/keelson/proxy"
	"github.com/keelson-dev/keelson/proxy/nftables"
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

func (s site) address(is6 bool) netip.Addr {
	if is6 {
		return s.v6
	}
	return s.v4
}

// net is a host with pods and a world outside, each behind a link of its own.
type network struct {
	t     testing.TB
	host  site // its address towards the outside
	sites []site
	dir   string
	// hostAddresses are all of the host, routes from which of them it sends to others.
	hostAddresses []netip.Addr
	routes        map[netip.Addr]netip.Addr
}

const serving = 8080

// newNetwork makes a host in a network namespace of its own, with so many pods, of which each serves its name.
func newNetwork(t testing.TB, pods int) *network {
	t.Helper()
	needs(t)
	nettest.Host(t)
	n := &network{
		t: t, dir: nettest.Dir(t), routes: map[netip.Addr]netip.Addr{},
		hostAddresses: []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.IPv6Loopback()},
	}
	nettest.Run(t, "", "sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1",
		"net.ipv4.icmp_ratemask=0", "net.ipv6.icmp.ratemask=255") // no limit of errors
	n.host = site{name: "host", ns: nettest.HostPath(), v4: netip.MustParseAddr("192.0.2.1"), v6: netip.MustParseAddr("2001:db8::1")}
	n.link("outside", n.host.v4, n.host.v6)
	outside := n.sites[0]
	nettest.Run(t, "", "ip", "route", "add", "default", "via", outside.v4.String())
	nettest.Run(t, "", "ip", "-6", "route", "add", "default", "via", outside.v6.String())
	for i := range pods {
		n.link(fmt.Sprintf("pod-%d", i), netip.MustParseAddr(fmt.Sprintf("10.64.%d.1", i)), netip.MustParseAddr(fmt.Sprintf("fd64:%d::1", i)))
	}
	for _, s := range n.sites {
		for _, ip := range []netip.Addr{s.v4, s.v6} {
			nettest.Serve(t, s.ns, netip.AddrPortFrom(ip, serving).String(), s.name)
			n.echo(s, netip.AddrPortFrom(ip, serving))
		}
	}
	return n
}

// link makes a namespace whose neighbor is the host with these addresses.
func (n *network) link(name string, v4, v6 netip.Addr) {
	t := n.t
	s := site{name: name, ns: nettest.Namespace(t, n.dir, name), v4: v4.Next(), v6: v6.Next()}
	nettest.Run(t, "", "ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", s.ns)
	t.Cleanup(func() { nettest.Run(t, "", "ip", "link", "delete", "dev", name) })
	n.hostAddresses = append(n.hostAddresses, v4, v6)
	for _, a := range []netip.Addr{v4, v6} {
		bits, nodad := "24", []string{}
		if a.Is6() {
			bits, nodad = "64", []string{"nodad"}
		}
		nettest.Run(t, "", append([]string{"ip", "address", "add", a.String() + "/" + bits, "dev", name}, nodad...)...)
		nettest.Run(t, s.ns, append([]string{"ip", "address", "add", a.Next().String() + "/" + bits, "dev", "eth0"}, nodad...)...)
	}
	nettest.Run(t, "", "ip", "link", "set", "dev", name, "up")
	nettest.Run(t, s.ns, "ip", "link", "set", "dev", "lo", "up")
	nettest.Run(t, s.ns, "ip", "link", "set", "dev", "eth0", "up")
	nettest.Run(t, s.ns, "ip", "route", "add", "default", "via", v4.String())
	nettest.Run(t, s.ns, "ip", "-6", "route", "add", "default", "via", v6.String())
	n.sites = append(n.sites, s)
}

// echo answers datagrams as nettest.Serve does connections.
func (n *network) echo(s site, at netip.AddrPort) {
	var c net.PacketConn
	err := netns.Do(s.ns, func() (err error) {
		c, err = net.ListenPacket("udp", at.String())
		return err
	})
	if err != nil {
		n.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 64)
		for {
			_, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = c.WriteTo([]byte(s.name+" to "+netip.MustParseAddrPort(from.String()).Addr().String()), from)
		}
	}()
	n.t.Cleanup(func() { _ = c.Close(); <-done })
}

// site finds one by name.
func (n *network) site(name string) site {
	if name == "host" {
		return n.host
	}
	return n.sites[slices.IndexFunc(n.sites, func(s site) bool { return s.name == name })]
}

// at is an endpoint of the pod.
func (n *network) at(pod int, is6 bool) netip.AddrPort {
	return netip.AddrPortFrom(n.site(fmt.Sprintf("pod-%d", pod)).address(is6), serving)
}

func (n *network) both(is6 bool, pods ...int) (all []netip.AddrPort) {
	for _, p := range pods {
		all = append(all, n.at(p, is6))
	}
	return all
}

// silence is how long nobody answers what is dropped.
const silence = 150 * time.Millisecond

// answer is what came back: whose name, and for whom they took the client.
type answer struct {
	action proxy.Action
	server string
	client netip.Addr
}

// send opens a connection, or sends a datagram, and reads what comes back within the time.
func (n *network) send(from string, protocol corev1.Protocol, to netip.AddrPort, patience time.Duration) answer {
	said, err := n.ask(n.site(from).ns, protocol, to, patience)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return answer{action: proxy.Reject}
	case errors.Is(err, syscall.EPERM):
		return answer{action: refused} // the host's own datagrams
	case err != nil:
		return answer{action: proxy.Drop}
	}
	server, client, _ := strings.Cut(said, " to ")
	ip, _ := netip.ParseAddr(client)
	return answer{proxy.Forward, server, ip}
}

// refused is what becomes of the host's own datagrams that are either rejected or dropped.
const refused proxy.Action = -1

func (n *network) ask(ns string, protocol corev1.Protocol, to netip.AddrPort, patience time.Duration) (string, error) {
	var c net.Conn
	dial := func() (err error) {
		c, err = (&net.Dialer{Timeout: patience}).Dial(strings.ToLower(string(protocol)), to.String())
		return err
	}
	if err := netns.Do(ns, dial); err != nil {
		return "", err
	}
	defer func() { _ = c.Close() }()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return "", err
	}
	if protocol == corev1.ProtocolTCP {
		said, err := io.ReadAll(c)
		return string(said), err
	}
	if _, err := c.Write([]byte("?")); err != nil {
		return "", err
	}
	said := make([]byte, 64)
	size, err := c.Read(said)
	return string(said[:size]), err
}

// expect compares what becomes of a packet with what the tables say.
func (n *network) expect(tables *proxy.Tables, from string, protocol corev1.Protocol, to netip.AddrPort) {
	n.t.Helper()
	is6 := to.Addr().Is6()
	source := n.site(from).address(is6)
	if from == "host" {
		source = n.hostTo(to.Addr())
	}
	packet := proxy.Packet{From: source, To: to, Protocol: protocol, FromHost: from == "host", ToHost: slices.Contains(n.hostAddresses, to.Addr())}
	want := tables.Decide(packet)
	if is6 && want.Action == proxy.Reject && protocol == corev1.ProtocolTCP && from != "pod-0" {
		return // it takes a second, until the SYN is sent again
	}
	patience := 10 * time.Second
	if want.Action == proxy.Drop {
		patience = silence
	}
	got := n.send(from, protocol, to, patience)
	if got.action == refused && (want.Action == proxy.Reject || want.Action == proxy.Drop) {
		return
	}
	if got.action != want.Action {
		n.t.Errorf("%s to %s/%s: %v, want %+v", from, to, protocol, got, want)
		return
	}
	if got.action != proxy.Forward {
		return
	}
	server := netip.AddrPortFrom(n.site(got.server).address(is6), serving)
	if !slices.Contains(want.Endpoints, server) {
		n.t.Errorf("%s to %s/%s: answered by %s, want %+v", from, to, protocol, got.server, want)
	}
	masqueraded := want.Masquerade || slices.Contains(want.Hairpin, server)
	if from == "host" {
		return // its address depends on the route
	}
	if (got.client != source) != masqueraded {
		n.t.Errorf("%s to %s/%s: seen as %s, want masquerading %v", from, to, protocol, got.client, masqueraded)
	}
}

// writer is one for the host, whose table is removed at the end.
func (n *network) writer(t testing.TB) *nftables.Writer {
	t.Helper()
	var w *nftables.Writer
	err := netns.Do(n.host.ns, func() (err error) {
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

func settings() proxy.Settings {
	return proxy.Settings{
		Pods:     []netip.Prefix{netip.MustParsePrefix("10.64.0.0/10"), netip.MustParsePrefix("fd64::/16")},
		Services: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12"), netip.MustParsePrefix("fd96::/16")},
	}
}
