package nftables_test

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/cni/netns"
	"github.com/keelson-dev/keelson/proxy"
)

// parse reads who answered, as the site's name and perhaps its port, and whom they saw.
func parse(n *network, said string) reply {
	server, seen, _ := strings.Cut(said, " to ")
	server, port, other := strings.Cut(server, ":")
	client, err := netip.ParseAddr(seen)
	if err != nil {
		return reply{action: proxy.Drop, err: err}
	}
	at := uint64(serving)
	if other {
		at, err = strconv.ParseUint(port, 10, 16)
	}
	return reply{proxy.Forward, netip.AddrPortFrom(n.site(server).address(client.Is6()), uint16(at)), client, err} //nolint:gosec // 16 bits
}

// hostTo is the address from which the host sends to another: what routes say.
func (n *network) hostTo(a netip.Addr) netip.Addr {
	if from, ok := n.routes[a]; ok {
		return from
	}
	var from netip.Addr
	err := netns.Do(n.host.ns, func() error {
		c, err := net.Dial("udp", netip.AddrPortFrom(a, 9).String()) //nolint:noctx // it sends nothing
		if err != nil {
			return err
		}
		from = netip.MustParseAddrPort(c.LocalAddr().String()).Addr()
		return c.Close()
	})
	if err != nil {
		n.t.Fatal(err)
	}
	n.routes[a] = from
	return from
}

// datagrams is a flow of UDP that a client keeps up while services change.
type datagrams struct {
	client
	target
	conn net.Conn
	// to is who answered last, if anybody did.
	to netip.AddrPort
}

// askFlows asks on all flows after a change and begins some. One whose endpoint still serves stays with it, whatever else
// has changed; any other is decided on anew.
func (p *proof) askFlows() {
	for _, f := range p.flows {
		q := p.question(f.client, f.target)
		owner := p.owner(f.target)
		said, err := "", f.conn.SetDeadline(time.Now().Add(patienceFor(q.want.Action)))
		if err == nil {
			said, err = inquire(f.conn)
		}
		got := reply{action: proxy.Drop, err: err}
		if err == nil {
			got = parse(p.n, said)
		}
		had := f.to
		f.to = got.server
		switch {
		case !had.IsValid():
			delete(p.sticky, stickiness(q)) // it may be what makes the client remembered
		case owner != nil && slices.Contains(owner.Serving, had):
			p.counts.flows.Add(1)
			if got.server != had {
				p.t.Errorf("%s to %s: now answered by %v, although %s serves: %+v", f.name, f.target, got, had, owner)
			}
		case q.want.Action == proxy.Forward:
			p.counts.cut.Add(1)
			say := func(format string, args ...any) {
				p.t.Errorf("%s to %s: %s; want %+v", f.name, f.target, fmt.Sprintf(format, args...), q.want)
			}
			if !slices.Contains(q.want.Endpoints, got.server) {
				say("now answered by %v and before by %s", got, had)
			}
			q.got = got
			p.remember(q, say)
		default:
			p.counts.cut.Add(1)
			if got.action == proxy.Forward {
				p.t.Errorf("%s to %s: still answered by %v; want %+v", f.name, f.target, got, q.want)
			}
		}
	}
	p.beginFlows()
}

func patienceFor(a proxy.Action) time.Duration {
	if a == proxy.Forward {
		return 20 * time.Second
	}
	return silence
}

// owner is the port that has the address.
func (p *proof) owner(t target) *proxy.Port {
	var owner *proxy.Port
	var name proxy.Service
	for service, ports := range p.tables.Services {
		for i := range ports {
			port := &ports[i]
			has := port.Protocol == t.protocol && port.Port == t.at.Port() && (port.ClusterIP == t.at.Addr() || slices.Contains(port.Addresses(), t.at.Addr()))
			if has && (owner == nil || proxy.CompareServices(service, name) < 0) {
				owner, name = port, service
			}
		}
	}
	return owner
}

// beginFlows keeps a few flows of pods to cluster IPs.
func (p *proof) beginFlows() {
	const most = 6
	if len(p.flows) == most {
		old := p.flows[0]
		p.flows = p.flows[1:]
		_ = old.conn.Close()
	}
	pods := slices.DeleteFunc(slices.Clone(p.clients), func(c client) bool { return !strings.HasPrefix(c.name, "pod") })
	for range 2 * most {
		service := numberedName(p.IntN(maxServices))
		for i := range p.tables.Services[service] {
			port := &p.tables.Services[service][i]
			if port.Protocol == corev1.ProtocolUDP && len(p.flows) < most {
				p.begin(pick(p.generator, pods...), target{netip.AddrPortFrom(port.ClusterIP, port.Port), port.Protocol})
			}
		}
	}
}

func (p *proof) begin(c client, t target) {
	q := p.question(c, t)
	f := &datagrams{client: c, target: t}
	err := netns.Do(c.ns, func() (err error) {
		f.conn, err = net.DialUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(q.from, uint16(q.port))), net.UDPAddrFromAddrPort(t.at)) //nolint:gosec // fewer
		return err
	})
	if err != nil {
		p.t.Fatal(err)
	}
	if err := f.conn.SetDeadline(time.Now().Add(patienceFor(q.want.Action))); err != nil {
		p.t.Fatal(err)
	}
	if said, err := inquire(f.conn); err == nil {
		q.got = parse(p.n, said)
		f.to = q.got.server
		p.remember(q, func(format string, args ...any) { p.t.Errorf("%s to %s: %s", c.name, t, fmt.Sprintf(format, args...)) })
	}
	p.flows = append(p.flows, f)
}
