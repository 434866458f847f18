package nftables

import (
	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/proxy"
)

// Registers, of which there are sixteen. The key of a port begins at 0 and has at most six. What is found by it comes to
// be around the pool: pool, choice, pool. So keys are contiguous: of an endpoint by its index or number, and of a client.
const (
	atKey    register = 0
	atNumber register = 5
	atPool   register = 6
	atIndex  register = 7
	atSticky register = 9 // the service
	atClient register = 10
)

// rules are those of one family.
type rules struct {
	f        family
	settings proxy.Settings
}

func (r rules) atEndpoint() register { return atPool - 1 - r.f.words() }
func (r rules) atPort() register     { return atPool - 1 }

func (r rules) loadSource(to register) expression {
	return payload(to, unix.NFT_PAYLOAD_NETWORK_HEADER, r.f.source(), r.f.bytes())
}

func (r rules) loadDestination(to register) expression {
	return payload(to, unix.NFT_PAYLOAD_NETWORK_HEADER, r.f.destination(), r.f.bytes())
}

// front loads the key of a port by the packet's destination, or the one of a node port, whose address is zero.
func (r rules) front(node bool) []expression {
	address := r.loadDestination(atKey)
	if node {
		address = load(atKey, make([]byte, r.f.bytes()))
	}
	return append([]expression{address}, r.service(atKey+r.f.words())...)
}

// service loads protocol and destination port.
func (r rules) service(to register) []expression {
	return []expression{meta(to, unix.NFT_META_L4PROTO), payload(to+1, unix.NFT_PAYLOAD_TRANSPORT_HEADER, 2, 2)}
}

// local goes on if the packet's source or destination is, or is not, an address of the host.
func (r rules) local(flags uint32, is bool) []expression {
	return []expression{addressType(atClient, flags), compare(atClient, !is, native(addressLocal))}
}

// setMarked marks the packet for masquerading.
func (r rules) setMarked() []expression {
	return []expression{
		meta(atClient, unix.NFT_META_MARK), mask(atClient, atClient, native(^uint32(masqueradedMark)), native(masqueradedMark)), setMark(atClient),
	}
}

func rule(parts ...[]expression) (all []expression) {
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

func one(e ...expression) []expression { return e }

// firewall drops packets to load balancers from elsewhere than their sources.
func (r rules) firewall() [][]expression {
	return [][]expression{rule(
		r.front(false), one(in(firewalled.name(r.f), atKey), r.loadSource(atKey+r.f.words()+2), notIn(allowed.name(r.f), atKey), end(verdictDrop, "")),
	)}
}

// strangers leaves packets alone that are not this cluster's, if there may be some.
func (r rules) strangers() (all [][]expression) {
	if !r.settings.PodsOnly {
		return nil
	}
	for _, k := range []kind{clusterIPs, ranges} {
		all = append(all, rule(
			one(r.loadDestination(atKey), in(k.name(r.f), atKey), r.loadSource(atClient), notIn(pods.name(r.f), atClient)),
			r.local(unix.NFTA_FIB_F_SADDR, false), one(end(verdictReturn, "")),
		))
	}
	return all
}

// unserved rejects or drops packets for which there is no endpoint.
func (r rules) unserved() [][]expression {
	return append(r.strangers(),
		rule(r.front(false), one(in(rejected.name(r.f), atKey), reject())),
		rule(r.front(false), one(in(dropped.name(r.f), atKey), end(verdictDrop, ""))),
	)
}

func (r rules) unservedNodePorts() [][]expression {
	return [][]expression{
		rule(r.atNode(), r.front(true), one(in(rejected.name(r.f), atKey), reject())),
		rule(r.atNode(), r.front(true), one(in(dropped.name(r.f), atKey), end(verdictDrop, ""))),
	}
}

// unknown rejects packets to ports that a service does not have, and drops those to addresses that no service has.
func (r rules) unknown() [][]expression {
	return append(r.strangers(),
		one(r.loadDestination(atKey), in(clusterIPs.name(r.f), atKey), reject()),
		one(r.loadDestination(atKey), in(ranges.name(r.f), atKey), end(verdictDrop, "")),
	)
}

// atNode goes on if the destination is an address that serves node ports.
func (r rules) atNode() []expression {
	for _, p := range r.settings.NodePorts {
		if familyOf(p.Addr().Is6()) == r.f {
			return rule(r.local(unix.NFTA_FIB_F_DADDR, true), one(r.loadDestination(atKey), in(nodePorts.name(r.f), atKey)), r.notLoopback())
		}
	}
	if len(r.settings.NodePorts) > 0 {
		return rule(r.local(unix.NFTA_FIB_F_DADDR, true), one(r.loadDestination(atKey), in(nodePorts.name(r.f), atKey))) // none
	}
	return rule(r.local(unix.NFTA_FIB_F_DADDR, true), r.notLoopback())
}

func (r rules) notLoopback() []expression {
	if r.f == v6 {
		return one(r.loadDestination(atKey), compare(atKey, true, append(make([]byte, 15), 1)))
	}
	return one(payload(atKey, unix.NFT_PAYLOAD_NETWORK_HEADER, r.f.destination(), 1), compare(atKey, true, []byte{127}))
}

// services finds the service of a packet and sends the packet on.
func (r rules) services() [][]expression {
	all := r.strangers()
	isCluster := one(r.loadDestination(atKey), in(clusterIPs.name(r.f), atKey))
	switch {
	case r.settings.MasqueradeAll:
		all = append(all, rule(isCluster, r.setMarked()))
	case r.knowsPods():
		all = append(all, rule(isCluster, one(r.loadSource(atClient), notIn(pods.name(r.f), atClient)), r.setMarked()))
	}
	all = append(all, r.dispatch(nil, false)...)
	return append(all, r.dispatch(r.atNode(), true)...)
}

func (r rules) knowsPods() bool {
	for _, p := range r.settings.Pods {
		if familyOf(p.Addr().Is6()) == r.f {
			return true
		}
	}
	return false
}

// dispatch leads to the chain for the number of endpoints, by the packet's address or by node ports.
func (r rules) dispatch(when []expression, node bool) [][]expression {
	short, long := picksShort, picks
	if node {
		short, long = picksNodeShort, picksNode
	}
	to := func(find, pick kind) []expression {
		return one(shown(atPool), mapped(find.name(r.f), atKey, atPool-1), decided(pick.name(r.f), atPool))
	}
	fromPod := one(r.loadSource(atClient), in(pods.name(r.f), atClient))
	fromHost := r.local(unix.NFTA_FIB_F_SADDR, true)
	return [][]expression{
		rule(when, r.front(node), one(in(masqueraded.name(r.f), atKey)), r.setMarked()),
		rule(when, fromPod, r.front(node), to(shortcuts, short)),
		rule(when, fromHost, r.front(node), one(mapped(shortcuts.name(r.f), atKey, atPool-1)), r.setMarked()),
		rule(when, fromHost, r.front(node), to(shortcuts, short)),
		rule(when, r.front(node), to(services, long)),
	}
}

// hairpin masquerades packets that an endpoint has sent to itself.
func (r rules) hairpin() []expression {
	w := r.f.words()
	return rule(
		one(meta(0, metaNFProto), compare(0, false, []byte{r.f.proto()})),
		one(ct(0, ctStatus), mask(0, 0, native(ctStatusDNAT), native(0)), compare(0, true, native(0))),
		one(r.loadSource(0), r.loadDestination(w)), r.service(2*w), one(in(hairpins.name(r.f), 0), masquerade()),
	)
}

// pick are the rules of the chain that chooses one of n endpoints.
func (r rules) pick(by kind, c choice) [][]expression {
	find, node := services, by == picksNode || by == picksNodeShort
	if by == picksShort || by == picksNodeShort {
		find = shortcuts
	}
	found := rule(r.front(node), one(shown(atPool), mapped(find.name(r.f), atKey, atPool-2)))
	index := random(atIndex, c.n)
	if c.n == 1 {
		index = load(atIndex, native(0)) // nft cannot show a random number of no bits
	}
	to := one(redirect(r.f.proto(), r.atEndpoint(), r.atPort()))
	if c.affinity == 0 {
		return [][]expression{rule(found, one(index, mapped(endpoints.name(r.f), atPool, r.atEndpoint())), to)}
	}
	known := affinity.name(r.f)
	found = append(found, shown(atNumber))
	client := one(mask(atSticky, atPool, native(^uint32(1)), native(0)), r.loadSource(atClient))
	number := one(index, mapped(numbered.name(r.f), atPool, atNumber-1), shown(atNumber-1))
	member := mapped(members.name(r.f), atNumber, r.atEndpoint())
	remember := func(op uint32) expression { return dynset(known, op, atSticky, atNumber-1, c.affinity) }
	return [][]expression{
		// A known client, whose endpoint is still there.
		rule(found, client, one(mapped(known, atSticky, atNumber-1), shown(atNumber-1), remember(unix.NFT_DYNSET_OP_UPDATE), member), to),
		// The value of an element cannot be changed: it is deleted and added. Deleting ignores the value.
		rule(found, client, one(shown(atNumber-1), dynset(known, dynsetDelete, atSticky, atNumber-1, 0))),
		rule(found, client, number, one(remember(unix.NFT_DYNSET_OP_ADD), member), to),
		// The map is full.
		rule(found, number, one(member), to),
	}
}
