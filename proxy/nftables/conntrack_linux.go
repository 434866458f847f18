package nftables

import (
	"errors"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/internal/nfnetlink"
	"github.com/keelson-dev/keelson/proxy"
)

// Messages and attributes of the tracking of connections.
const (
	getFlows      = nfnetlink.Conntrack<<8 | 1
	deleteFlow    = nfnetlink.Conntrack<<8 | 2
	flowOriginal  = 1
	flowReply     = 2
	flowID        = 12
	flowZone      = 18
	tupleIP       = 1
	tupleProto    = 2
	ipSource      = 1 // of IPv4; IPv6 has two more
	ipDestination = 2
	protoNumber   = 1
	protoSource   = 2
	protoDest     = 3
)

// flow is what the kernel remembers of a client and an endpoint.
type flow struct {
	to       netip.AddrPort // where the client sends
	from     netip.AddrPort // who answers
	tuple    []byte
	id, zone []byte
}

// readFlow reads a flow of UDP.
func readFlow(a []byte, f family) (flow, bool) {
	original, reply := nfnetlink.Find(a, flowOriginal), nfnetlink.Find(a, flowReply)
	if n := nfnetlink.Find(original, tupleProto, protoNumber); len(n) != 1 || n[0] != unix.IPPROTO_UDP {
		return flow{}, false
	}
	more := uint16(0)
	if f == v6 {
		more = 2
	}
	read := func(tuple []byte, ip, port uint16) (netip.AddrPort, bool) {
		address, ok := netip.AddrFromSlice(nfnetlink.Find(tuple, tupleIP, ip+more))
		return netip.AddrPortFrom(address, uint16(nfnetlink.Number(nfnetlink.Find(tuple, tupleProto, port)))), ok //nolint:gosec // two bytes
	}
	to, ok := read(original, ipDestination, protoDest)
	from, also := read(reply, ipSource, protoSource)
	return flow{to, from, slices.Clone(original), slices.Clone(nfnetlink.Find(a, flowID)), slices.Clone(nfnetlink.Find(a, flowZone))}, ok && also
}

// wanted are the endpoints to which datagrams may flow, by the addresses of services and by node ports, which have no
// address.
type wanted map[netip.AddrPort][]netip.AddrPort

// add adds what a port is reached by, with the endpoints of the service that has it: several may claim an address. Node ports
// count only with endpoints: the port alone does not tell whether a flow is to this host.
func (w wanted) add(s *state, p *proxy.Port) {
	for _, a := range append([]netip.Addr{p.ClusterIP}, p.Addresses()...) {
		w[netip.AddrPortFrom(a, p.Port)] = s.serving(front{a, p.Port, unix.IPPROTO_UDP})
	}
	if p.NodePort == 0 {
		return
	}
	if serving := s.serving(front{zero(p.Is6()), p.NodePort, unix.IPPROTO_UDP}); len(serving) > 0 {
		w[netip.AddrPortFrom(netip.Addr{}, p.NodePort)] = serving
	}
}

func (w wanted) stale(f flow) bool {
	serving, ok := w[f.to]
	if !ok {
		serving, ok = w[netip.AddrPortFrom(netip.Addr{}, f.to.Port())]
	}
	return ok && !slices.Contains(serving, f.from)
}

// forget removes flows of UDP to endpoints that no longer serve: a client that keeps sending would otherwise reach nobody
// as long as it does. What services had before is in had.
func (w *Writer) forget(had, has map[proxy.Service][]proxy.Port) {
	for f := range families {
		want := wanted{}
		each(had, f, func(p *proxy.Port) { want.add(w.state, p) })
		each(has, f, func(p *proxy.Port) { want.add(w.state, p) })
		if len(want) == 0 {
			continue
		}
		if err := w.forgetStale(f, want); err != nil {
			w.log.Warn("removing stale flows of UDP failed", "error", err)
		}
	}
}

// each calls do for the ports of UDP.
func each(services map[proxy.Service][]proxy.Port, f family, do func(*proxy.Port)) {
	for _, ports := range services {
		for i := range ports {
			if p := &ports[i]; p.Protocol == corev1.ProtocolUDP && familyOf(p.Is6()) == f {
				do(p)
			}
		}
	}
}

func (w *Writer) forgetStale(f family, want wanted) error {
	var stale []flow
	err := w.conn.Dump(getFlows, f.proto(), nil, func(a []byte) {
		if flow, ok := readFlow(a, f); ok && want.stale(flow) {
			stale = append(stale, flow)
		}
	})
	if err != nil && !errors.Is(err, nfnetlink.ErrInterrupted) {
		return err
	}
	var errs []error
	for _, s := range stale {
		err := w.conn.Ask(deleteFlow, f.proto(), func(m *nfnetlink.Message) {
			at := m.Begin(flowOriginal)
			m.Raw(s.tuple)
			m.End(at)
			for kind, value := range map[uint16][]byte{flowID: s.id, flowZone: s.zone} {
				if value != nil {
					m.Bytes(kind, value)
				}
			}
		}, func([]byte) {})
		if err != nil && !errors.Is(err, unix.ENOENT) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
