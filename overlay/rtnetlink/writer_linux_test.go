package rtnetlink_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/cni/netns"
	"github.com/keelson-dev/keelson/internal/nettest"
	"github.com/keelson-dev/keelson/overlay"
	"github.com/keelson-dev/keelson/overlay/rtnetlink"
)

// host is a network namespace with an address, a network of pods and one pod.
type host struct {
	name         string
	ns, pod      string // namespaces
	address      netip.Addr
	pods4, pods6 netip.Prefix
	writer       *rtnetlink.Writer
}

func (h *host) pod4() netip.Addr { return h.pods4.Addr().Next().Next() }
func (h *host) pod6() netip.Addr { return h.pods6.Addr().Next().Next() }
func (h *host) node() *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: h.name}}
	n.Spec.PodCIDRs = []string{h.pods4.String(), h.pods6.String()}
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: h.address.String()}}
	return n
}

// newHost makes the host of a number with an address in a segment, which the test's own namespace is the router or the switch of,
// and a pod behind it, whose device has this MTU.
func newHost(t *testing.T, dir string, number int, address string, mtu int) *host {
	t.Helper()
	at := netip.MustParsePrefix(address)
	name := fmt.Sprintf("host%d", number)
	h := &host{
		name: name, ns: nettest.Namespace(t, dir, name), pod: nettest.Namespace(t, dir, "pod-of-"+name), address: at.Addr(),
		pods4: netip.MustParsePrefix(fmt.Sprintf("10.64.%d.0/24", number)), pods6: netip.MustParsePrefix(fmt.Sprintf("fd00:64:0:%d::/64", number)),
	}
	nettest.Run(t, "", "ip", "link", "add", "to"+name, "type", "veth", "peer", "name", "eth0", "netns", h.ns)
	nettest.Run(t, "", "ip", "link", "set", "dev", "to"+name, "up")
	for _, command := range []string{
		"ip link set dev lo up", "ip link set dev eth0 up", "ip address add " + address + " dev eth0 nodad",
		"sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1",
		"ip link add pod0 type veth peer name eth0 netns " + h.pod,
		fmt.Sprintf("ip link set dev pod0 mtu %d up", mtu),
		"ip address add " + h.pods4.Addr().Next().String() + "/24 dev pod0",
		"ip address add " + h.pods6.Addr().Next().String() + "/64 dev pod0 nodad",
	} {
		nettest.Run(t, h.ns, strings.Fields(command)...)
	}
	for _, command := range []string{
		"ip link set dev lo up", fmt.Sprintf("ip link set dev eth0 mtu %d up", mtu),
		"ip address add " + h.pod4().String() + "/24 dev eth0", "ip address add " + h.pod6().String() + "/64 dev eth0 nodad",
		"ip route add default via " + h.pods4.Addr().Next().String(), "ip route add default via " + h.pods6.Addr().Next().String(),
	} {
		nettest.Run(t, h.pod, strings.Fields(command)...)
	}
	if err := netns.Do(h.ns, func() (err error) {
		h.writer, err = rtnetlink.New(h.address, rtnetlink.Options{})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.writer.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, at := range []string{h.pod4().String(), "[" + h.pod6().String() + "]"} {
		nettest.Serve(t, h.pod, at+":8080", name)
	}
	return h
}

// segment joins hosts as a switch does.
func segment(t *testing.T, hosts ...*host) {
	t.Helper()
	nettest.Run(t, "", "ip", "link", "add", "switch", "type", "bridge")
	nettest.Run(t, "", "ip", "link", "set", "dev", "switch", "up")
	for _, h := range hosts {
		nettest.Run(t, "", "ip", "link", "set", "dev", "to"+h.name, "master", "switch")
	}
}

// router joins hosts of different segments.
func router(t *testing.T, hosts ...*host) {
	t.Helper()
	nettest.Run(t, "", "sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
	for _, h := range hosts {
		at, bits := h.address.Prev(), "24"
		if at.Is6() {
			bits = "64"
		}
		nettest.Run(t, "", "ip", "address", "add", at.String()+"/"+bits, "dev", "to"+h.name)
		nettest.Run(t, h.ns, "ip", "route", "add", "default", "via", at.String())
	}
}

var networks = []netip.Prefix{netip.MustParsePrefix("10.64.0.0/10"), netip.MustParsePrefix("fd00:64::/48")}

// write has each host write the routes to all others.
func write(t *testing.T, s overlay.Settings, hosts ...*host) []overlay.Table {
	t.Helper()
	var nodes []*corev1.Node
	for _, h := range hosts {
		nodes = append(nodes, h.node())
	}
	s.Networks = networks
	var tables []overlay.Table
	for _, h := range hosts {
		u, err := h.writer.Underlay(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		table, refusals := overlay.Decide(h.name, nodes, u, s)
		if len(refusals) > 0 {
			t.Fatalf("refused: %v", refusals)
		}
		if err := h.writer.Write(t.Context(), table); err != nil {
			t.Fatal(err)
		}
		tables = append(tables, table)
	}
	return tables
}

// answers expects that all pods, and all hosts themselves, reach all pods under their own addresses.
func answers(t *testing.T, hosts ...*host) {
	t.Helper()
	for _, from := range hosts {
		for _, to := range hosts {
			nettest.Hears(t, from.pod, to.pod4().String()+":8080", nettest.Greeting(to.name, from.pod4()))
			nettest.Hears(t, from.pod, "["+to.pod6().String()+"]:8080", nettest.Greeting(to.name, from.pod6()))
			for _, at := range []string{to.pod4().String() + ":8080", "[" + to.pod6().String() + "]:8080"} {
				if said, err := nettest.Fetch(t, from.ns, at); err != nil || !strings.HasPrefix(said, to.name+" to ") {
					t.Errorf("%s itself hears %q of %s, %v", from.name, said, at, err)
				}
			}
		}
	}
}

// fits reports whether a packet of so many bytes comes in one piece from one pod to another.
func fits(t *testing.T, from, to *host, size int) bool {
	t.Helper()
	const headers = 28 // of IP and UDP
	var in net.PacketConn
	var out net.Conn
	if err := errors.Join(netns.Do(to.pod, func() (err error) {
		in, err = net.ListenPacket("udp", to.pod4().String()+":0")
		return err
	}), netns.Do(from.pod, func() (err error) {
		out, err = net.Dial("udp", in.LocalAddr().String())
		return err
	})); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = in.Close(), out.Close() }()
	raw, err := out.(*net.UDPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE) // never fragments
	}); err != nil {
		t.Fatal(err)
	}
	_, err = out.Write(make([]byte, size-headers))
	if errors.Is(err, unix.EMSGSIZE) {
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := in.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	n, _, err := in.ReadFrom(make([]byte, size))
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	return n == size-headers
}

func start(t *testing.T) (dir string) {
	t.Helper()
	nettest.Plugins(t) // root and CI
	nettest.Host(t)
	return nettest.Dir(t)
}

// TestSegment: hosts beside each other are each other's routers, also for packets of full size.
func TestSegment(t *testing.T) {
	dir := start(t)
	a, b := newHost(t, dir, 1, "192.0.2.1/24", 1500), newHost(t, dir, 2, "192.0.2.2/24", 1500)
	c := newHost(t, dir, 3, "192.0.2.3/24", 1500)
	segment(t, a, b, c)
	tables := write(t, overlay.Settings{}, a, b, c)
	// The routes of IPv6 need an address of IPv6, so they are in VXLAN.
	if r := tables[0].Routes; len(r) != 4 || r[0].Encapsulated || r[1].Encapsulated || !r[2].Encapsulated {
		t.Fatalf("routes %v", r)
	}
	answers(t, a, b, c)
	if !fits(t, a, b, 1500) {
		t.Error("a packet of 1500 bytes is lost")
	}
	if u := tables[0].Underlay; u.Device != "eth0" || u.MTU != 1500 || fmt.Sprint(u.Segments) != "[192.0.2.0/24]" {
		t.Errorf("the host's own network is %v", u)
	}
}

// TestVXLAN: hosts of different segments reach each other's pods by packets that are 50 bytes shorter.
func TestVXLAN(t *testing.T) {
	dir := start(t)
	a, b := newHost(t, dir, 1, "192.0.2.2/24", 1450), newHost(t, dir, 2, "198.51.100.2/24", 1450)
	router(t, a, b)
	tables := write(t, overlay.Settings{}, a, b)
	if mtu := overlay.MTU(tables[0].Underlay); mtu != 1450 {
		t.Errorf("pods have an MTU of %d", mtu)
	}
	answers(t, a, b)
	if !fits(t, a, b, 1450) {
		t.Error("a packet of 1450 bytes is lost")
	}
	if said := nettest.Run(t, a.ns, "ip", "-o", "link", "show", "keelson-vxlan"); !strings.Contains(said, "mtu 1450") {
		t.Errorf("the device: %s", said)
	}
	// What pods of a wrong MTU send is not lost either: they learn of it.
	large := newHost(t, dir, 3, "203.0.113.2/24", 1500)
	router(t, large)
	write(t, overlay.Settings{}, a, b, large)
	answers(t, a, large)
	if fits(t, large, a, 1451) {
		t.Error("a packet of 1451 bytes fits")
	}
	stream(t, large, a)
}

// stream sends a megabyte over TCP from one pod to another.
func stream(t *testing.T, from, to *host) {
	t.Helper()
	var l net.Listener
	if err := netns.Do(to.pod, func() (err error) {
		l, err = net.Listen("tcp", to.pod4().String()+":0")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	got := make(chan int, 1)
	go func() {
		n := 0
		defer func() { got <- n }()
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer func() { _ = c.Close() }()
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		for buffer := make([]byte, 1<<16); ; {
			some, err := c.Read(buffer)
			if n += some; err != nil {
				return
			}
		}
	}()
	if err := netns.Do(from.pod, func() error {
		c, err := net.DialTimeout("tcp", l.Addr().String(), 20*time.Second)
		if err != nil {
			return err
		}
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		_, err = c.Write(make([]byte, 1<<20))
		return errors.Join(err, c.Close())
	}); err != nil {
		t.Error(err)
	}
	if n := <-got; n != 1<<20 {
		t.Errorf("%d bytes arrive", n)
	}
}

// TestVXLANOverIPv6: the hosts have addresses of IPv6 only.
func TestVXLANOverIPv6(t *testing.T) {
	dir := start(t)
	a, b := newHost(t, dir, 1, "2001:db8:1::2/64", 1430), newHost(t, dir, 2, "2001:db8:2::2/64", 1430)
	router(t, a, b)
	tables := write(t, overlay.Settings{}, a, b)
	if mtu := overlay.MTU(tables[0].Underlay); mtu != 1430 {
		t.Errorf("pods have an MTU of %d", mtu)
	}
	answers(t, a, b)
	if !fits(t, a, b, 1430) {
		t.Error("a packet of 1430 bytes is lost")
	}
}

// TestAgain: another process finds what an earlier one has written, corrects it, and leaves alone what is not its own.
func TestAgain(t *testing.T) {
	dir := start(t)
	a, b, c := newHost(t, dir, 1, "192.0.2.1/24", 1450), newHost(t, dir, 2, "192.0.2.2/24", 1450), newHost(t, dir, 3, "192.0.2.3/24", 1450)
	segment(t, a, b, c)
	nettest.Run(t, a.ns, "ip", "route", "add", "10.99.0.0/16", "via", "192.0.2.2")
	before := census(t, a)
	write(t, overlay.Settings{Encapsulate: true}, a, b, c)
	full := census(t, a)
	write(t, overlay.Settings{Encapsulate: true}, a, b, c)
	if again := census(t, a); again != full {
		t.Errorf("written again\n%s\nis\n%s", full, again)
	}
	answers(t, a, b, c)
	for _, broken := range []string{
		"ip route delete 10.64.2.0/24", "ip route replace 10.64.2.0/24 via 192.0.2.3 proto 75", "ip route add 10.77.0.0/24 via 192.0.2.3 proto 75",
		"ip neighbour delete 10.64.2.0 dev keelson-vxlan", "bridge fdb add 0a:00:00:00:00:01 dst 192.0.2.9 dev keelson-vxlan self permanent",
		"ip neighbour replace 10.64.9.0 lladdr 0a:00:00:00:00:02 dev keelson-vxlan nud permanent",
		"bridge fdb delete 0a:58:0a:40:02:00 dst 192.0.2.2 dev keelson-vxlan self", "ip link set dev keelson-vxlan down", "ip link delete dev keelson-vxlan",
		"ip link set dev keelson-vxlan mtu 1400", "ip address add 10.64.9.9/32 dev keelson-vxlan", "ip address delete 10.64.1.0/32 dev keelson-vxlan",
		"ip link set dev keelson-vxlan address 0a:00:00:00:00:03",
	} {
		nettest.Run(t, a.ns, strings.Fields(broken)...)
		write(t, overlay.Settings{Encapsulate: true}, a, b, c)
		if again := census(t, a); again != full {
			t.Errorf("after %s\n%s\nis\n%s", broken, full, again)
		}
	}
	answers(t, a, b, c)
	// c leaves; then the others need no VXLAN for IPv4.
	write(t, overlay.Settings{}, a, b)
	if routes := nettest.Run(t, a.ns, "ip", "route"); strings.Contains(routes, "10.64.3.") || !strings.Contains(routes, "10.64.2.0/24 via 192.0.2.2 dev eth0") {
		t.Errorf("routes\n%s", routes)
	}
	answers(t, a, b)
	for range 2 {
		if err := a.writer.Remove(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if after := census(t, a); after != before {
		t.Errorf("there was\n%s\nand is left\n%s", before, after)
	}
}

// census is what a host has of links, routes and neighbours, without what changes by itself.
func census(t *testing.T, h *host) string {
	t.Helper()
	var all []string
	for _, command := range []string{
		"ip -br link", "ip -br -4 address", "ip route", "ip -6 route show proto 75", "ip neighbour show nud permanent", "bridge fdb show dev keelson-vxlan",
	} {
		if strings.HasPrefix(command, "bridge") && !strings.Contains(all[0], "keelson-vxlan") {
			continue
		}
		for line := range strings.Lines(nettest.Run(t, h.ns, strings.Fields(command)...)) {
			if !strings.HasPrefix(line, "33:33") { // of multicast, which comes late
				all = append(all, strings.TrimSpace(line))
			}
		}
	}
	return sorted(all)
}

// TestOtherDevice: a device of that name that is something else is not touched.
func TestOtherDevice(t *testing.T) {
	dir := start(t)
	a := newHost(t, dir, 1, "192.0.2.1/24", 1450)
	nettest.Run(t, a.ns, "ip", "link", "add", "keelson-vxlan", "type", "bridge")
	u, err := a.writer.Underlay(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	table, _ := overlay.Decide(a.name, []*corev1.Node{a.node()}, u, overlay.Settings{Networks: networks})
	if err := a.writer.Write(t.Context(), table); err == nil || !strings.Contains(err.Error(), "bridge") {
		t.Errorf("written: %v", err)
	}
	// Another VXLAN of that name is replaced.
	nettest.Run(t, a.ns, "ip", "link", "delete", "keelson-vxlan")
	nettest.Run(t, a.ns, "ip", "link", "add", "keelson-vxlan", "type", "vxlan", "id", "7", "dstport", "4789", "local", "192.0.2.1", "dev", "eth0")
	if err := a.writer.Write(t.Context(), table); err != nil {
		t.Error(err)
	}
	if said := nettest.Run(t, a.ns, "ip", "-d", "-o", "link", "show", "keelson-vxlan"); !strings.Contains(said, "vxlan id 1 ") || !strings.Contains(said, "dstport 8472") {
		t.Errorf("the device: %s", said)
	}
	nettest.Run(t, a.ns, "ip", "address", "flush", "dev", "eth0")
	if _, err := a.writer.Underlay(t.Context()); !errors.Is(err, rtnetlink.ErrNoAddress) {
		t.Errorf("without an address: %v", err)
	}
	table.Underlay.Device = "eth7"
	if err := a.writer.Write(t.Context(), table); err == nil || !strings.Contains(err.Error(), "eth7") {
		t.Errorf("on a device that is not there: %v", err)
	}
}
