package nftables_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/cni/netns"
	"github.com/keelson-dev/keelson/internal/evidence"
	"github.com/keelson-dev/keelson/internal/nettest"
	"github.com/keelson-dev/keelson/proxy"
)

// Flags that make packets sets.
var (
	sets     = flag.Int("sets", 18, "how many random sets of services to try with packets")
	fromSeed = flag.Uint64("seed", 0, "of the first network's sets; 0 takes one")
	results  = flag.String("results", "", "directory to write packets.json to; empty writes nothing")
)

// target is where a packet is sent to.
type target struct {
	at       netip.AddrPort
	protocol corev1.Protocol
}

func (t target) String() string { return fmt.Sprintf("%s/%s", t.at, t.protocol) }

func (t target) compare(o target) int {
	return cmp.Or(t.at.Compare(o.at), cmp.Compare(t.protocol, o.protocol))
}

// client is who sends: a site, or an address of it.
type client struct {
	name, ns string
	v4, v6   netip.Addr // unset for the host, which has a choice
}

func (c client) host() bool { return c.name == "host" }

// counts are what a proof has done.
type counts struct {
	sets, packets, forwarded, rejected, dropped, sticky, flows, cut, kills atomic.Int64
}

// proof asks by packets on one network, and compares with the tables.
type proof struct {
	t *testing.T
	*generator
	writer  proxy.Writer
	tables  proxy.Tables
	clients []client
	port    int // the last local port
	// sticky is who last answered a client of a port with affinity.
	sticky map[string]netip.AddrPort
	flows  []*datagrams
	counts *counts
}

// TestRandomPackets has random sets of services in networks of their own, and compares who answers whom, and as whom the
// client is seen, with what proxy.Tables.Decide says. Beside that, it kills programs that write.
func TestRandomPackets(t *testing.T) {
	needs(t)
	count, seed := *sets, *fromSeed
	if testing.Short() {
		count = 4
	}
	if seed == 0 {
		seed = rand.Uint64N(1 << 32)
	}
	begun, err := evidence.Begin(*results, "packets")
	if err != nil {
		t.Fatal(err)
	}
	var c counts
	t.Cleanup(func() {
		var failed error
		if t.Failed() {
			failed = errors.New("packets went where the tables do not say; the test's log tells which")
		}
		if err := begun.End(evidence.Result{Seed: seed, Figures: c.figures()}, failed); err != nil {
			t.Error(err)
		}
	})
	networks := max(1, min(8, count/6))
	for i := range uint64(networks) { //nolint:gosec // positive
		t.Run(fmt.Sprintf("seed %d", seed+i), func(t *testing.T) {
			t.Parallel()
			p := newProof(t, seed+i, &c)
			for n := range count / networks {
				if p.set(n); t.Failed() {
					return
				}
			}
		})
	}
	t.Run("kills", func(t *testing.T) {
		t.Parallel()
		count := *kills
		if testing.Short() {
			count = 2
		}
		newNetwork(t, 2).killed(t, count, func() { c.kills.Add(1) })
	})
}

func (c *counts) figures() []evidence.Figure {
	figure := func(what string, n *atomic.Int64) evidence.Figure {
		return evidence.Figure{What: what, Value: float64(n.Load())}
	}
	return []evidence.Figure{
		figure("random sets of services, endpoints and settings in the kernel", &c.sets), figure("packets of which the outcome was compared with the tables", &c.packets),
		figure("answered by one of the endpoints that the tables name", &c.forwarded), figure("rejected", &c.rejected), figure("dropped", &c.dropped),
		figure("clients with session affinity that were held to their endpoint", &c.sticky), figure("flows of UDP held to an endpoint that still served", &c.flows),
		figure("flows of UDP cut as theirs no longer did", &c.cut),
		figure("SIGKILLs of a program that writes: its tables hold, the next one repairs them, and those of others stay as they are", &c.kills),
	}
}

func newProof(t *testing.T, seed uint64, c *counts) *proof {
	t.Helper()
	const pods, local = 5, 3
	n := newNetwork(t, pods)
	outside := n.sites[0]
	more := client{"outside-2", outside.ns, netip.MustParseAddr("192.0.2.66"), netip.MustParseAddr("2001:db8::66")}
	nettest.Run(t, outside.ns, "ip", "address", "add", "192.0.2.66/24", "dev", "eth0")
	nettest.Run(t, outside.ns, "ip", "address", "add", "2001:db8::66/64", "dev", "eth0", "nodad")
	for _, s := range append(n.sites[1:], n.host) {
		for _, ip := range []netip.Addr{s.v4, s.v6} {
			if s.name == "host" {
				n.serve(s, netip.AddrPortFrom(ip, serving))
			}
			n.serve(s, netip.AddrPortFrom(ip, otherServing))
		}
	}
	p := &proof{
		t: t, generator: &generator{Rand: rand.New(rand.NewPCG(seed, 0)), n: n, local: local}, writer: n.writer(t), counts: c, port: 1 << 14,
		clients: []client{{"outside", outside.ns, outside.v4, outside.v6}, more, {name: "host", ns: n.host.ns}}, sticky: map[string]netip.AddrPort{},
	}
	for _, s := range n.sites[1 : local+1] {
		p.clients = append(p.clients, client(s))
	}
	t.Cleanup(func() {
		for _, f := range p.flows {
			_ = f.conn.Close()
		}
	})
	return p
}

// serve answers at a port of the site.
func (n *network) serve(s site, at netip.AddrPort) {
	if at.Port() != serving {
		s.name = fmt.Sprintf("%s:%d", s.name, at.Port())
	}
	nettest.Serve(n.t, s.ns, at.String(), s.name)
	n.echo(s, at)
}

// set changes the services, or all there is, and asks.
func (p *proof) set(number int) {
	node := p.node()
	if number == 0 || p.chance(0.25) {
		p.tables = proxy.Tables{Settings: p.settings(), Services: p.change(1, node)}
		maps.DeleteFunc(p.tables.Services, func(_ proxy.Service, ports []proxy.Port) bool { return len(ports) == 0 })
		if err := p.writer.Sync(p.t.Context(), p.tables); err != nil {
			p.t.Fatal(err)
		}
	} else {
		changed := p.change(0.5, node)
		maps.Copy(p.tables.Services, changed)
		maps.DeleteFunc(p.tables.Services, func(_ proxy.Service, ports []proxy.Port) bool { return len(ports) == 0 })
		if err := p.writer.Update(p.t.Context(), changed); err != nil {
			p.t.Fatal(err)
		}
	}
	p.counts.sets.Add(1)
	p.askFlows()
	p.askAll()
	if p.t.Failed() {
		p.t.Logf("after set %d", number)
		for name, ports := range p.tables.Services {
			for i := range ports {
				p.t.Logf("%s %+v", name, ports[i])
			}
		}
		p.t.Logf("settings %+v", p.tables.Settings)
	}
}

// question is a packet to send, and what should become of it.
type question struct {
	client
	target
	port int // of the client
	want proxy.Decision
	from netip.Addr
	got  reply
}

// reply is what came back.
type reply struct {
	action proxy.Action
	server netip.AddrPort
	client netip.Addr
	err    error
}

// askAll sends a packet of each client to some targets, many at a time. Those of a client to one sticky port follow one
// another.
func (p *proof) askAll() {
	targets := p.targets(&p.tables)
	groups := map[string][]*question{}
	for i, t := range targets[:min(len(targets), 24)] {
		for j, c := range p.clients {
			if (i+j)%2 == 0 || t.at.Addr().IsLoopback() != c.host() && t.at.Addr().IsLoopback() {
				continue
			}
			q := p.question(c, t)
			group := fmt.Sprint("alone ", p.port)
			if q.want.Sticky {
				group = stickiness(q)
			}
			groups[group] = append(groups[group], q)
		}
	}
	var all sync.WaitGroup
	for _, group := range groups {
		all.Go(func() {
			for _, q := range group {
				q.got = q.ask(p.n)
			}
		})
	}
	all.Wait()
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		for _, q := range groups[key] {
			p.judge(q)
		}
	}
	for key := range p.sticky {
		if groups[key] == nil && !p.stillSticky(key) {
			delete(p.sticky, key) // the kernel may forget
		}
	}
}

// stickiness names what a client remembers an endpoint by.
func stickiness(q *question) string {
	return fmt.Sprintf("%s %s %s %v of %s", q.want.Service, q.want.Port, q.protocol, q.from.Is6(), q.from)
}

// stillSticky reports whether a service that a client remembers still has affinity.
func (p *proof) stillSticky(key string) bool {
	for name, ports := range p.tables.Services {
		for i := range ports {
			if strings.HasPrefix(key, fmt.Sprintf("%s %s %s %v of ", name, ports[i].Name, ports[i].Protocol, ports[i].Is6())) && ports[i].Affinity > 0 {
				return true
			}
		}
	}
	return false
}

// question decides what should become of a packet.
func (p *proof) question(c client, t target) *question {
	p.port++
	q := &question{client: c, target: t, port: p.port}
	q.from = c.v4
	if t.at.Addr().Is6() {
		q.from = c.v6
	}
	if c.host() {
		q.from = p.n.hostTo(t.at.Addr())
	}
	q.want = p.tables.Decide(p.packet(c, q.from, t))
	return q
}

func (p *proof) packet(c client, from netip.Addr, t target) proxy.Packet {
	return proxy.Packet{
		From: from, To: t.at, Protocol: t.protocol, FromHost: c.host(), ToHost: slices.Contains(p.n.hostAddresses, t.at.Addr()),
	}
}

// judge compares.
func (p *proof) judge(q *question) {
	p.counts.packets.Add(1)
	want := q.want.Action
	if want == proxy.Pass {
		// Nobody has the address, or nobody listens at the host's.
		if want = proxy.Drop; slices.Contains(p.n.hostAddresses, q.at.Addr()) {
			want = proxy.Reject
		}
	}
	say := func(format string, args ...any) {
		p.t.Errorf("%s (%s) to %s: %s; want %+v", q.name, q.from, q.target, fmt.Sprintf(format, args...), q.want)
	}
	if q.got.action == refused && (want == proxy.Reject || want == proxy.Drop) {
		q.got.action = want
	}
	switch {
	case q.got.action != want:
		say("%v (%v)", q.got.action, q.got.err)
		return
	case want == proxy.Reject:
		p.counts.rejected.Add(1)
		return
	case want == proxy.Drop:
		p.counts.dropped.Add(1)
		return
	}
	p.counts.forwarded.Add(1)
	server := q.got.server
	if !slices.Contains(q.want.Endpoints, server) {
		say("answered by %s", server)
	}
	masqueraded := q.want.Masquerade || slices.Contains(q.want.Hairpin, server)
	if !q.host() && server.Addr() != p.n.host.address(server.Addr().Is6()) && (q.got.client != q.from) != masqueraded {
		say("seen as %s by %s", q.got.client, server)
	}
	p.remember(q, say)
}

// remember holds a client of a sticky port to the endpoint that it had, if that is still there.
func (p *proof) remember(q *question, say func(string, ...any)) {
	if !q.want.Sticky {
		return
	}
	key := stickiness(q)
	if had, ok := p.sticky[key]; ok && slices.Contains(q.want.Endpoints, had) {
		p.counts.sticky.Add(1)
		if had != q.got.server {
			say("answered by %s after %s", q.got.server, had)
		}
	}
	p.sticky[key] = q.got.server
}

// ask sends the packet and waits for an answer: briefly if there should be none.
func (q *question) ask(n *network) reply {
	want := q.want.Action
	patience := 20 * time.Second
	if want == proxy.Drop || want == proxy.Pass && !slices.Contains(n.hostAddresses, q.at.Addr()) {
		patience = silence
	}
	said, err := q.exchange(patience)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return reply{action: proxy.Reject, err: err}
	case errors.Is(err, syscall.EPERM):
		return reply{action: refused, err: err}
	case err != nil:
		return reply{action: proxy.Drop, err: err}
	}
	return parse(n, said)
}

func (q *question) exchange(patience time.Duration) (string, error) {
	from := netip.AddrPortFrom(q.from, uint16(q.port)) //nolint:gosec // fewer
	dialer := net.Dialer{Timeout: patience, LocalAddr: net.TCPAddrFromAddrPort(from)}
	if q.protocol == corev1.ProtocolUDP {
		dialer.LocalAddr = net.UDPAddrFromAddrPort(from)
	}
	var c net.Conn
	err := netns.Do(q.ns, func() (err error) {
		c, err = dialer.DialContext(context.Background(), strings.ToLower(string(q.protocol)), q.at.String())
		return err
	})
	if err != nil {
		return "", err
	}
	defer func() { _ = c.Close() }()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return "", err
	}
	if q.protocol == corev1.ProtocolTCP {
		said, err := io.ReadAll(c)
		return string(said), err
	}
	return inquire(c)
}

func inquire(c net.Conn) (string, error) {
	if _, err := c.Write([]byte("?")); err != nil {
		return "", err
	}
	said := make([]byte, 64)
	size, err := c.Read(said)
	return string(said[:size]), err
}
