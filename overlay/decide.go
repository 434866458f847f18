package overlay

import (
	"cmp"
	"crypto/sha256"
	"net"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Settings are what a cluster's hosts agree on.
type Settings struct {
	// Networks are those of all pods: nothing outside of them is routed.
	Networks []netip.Prefix
	// Encapsulate uses VXLAN between hosts of one segment, too: for segments that deliver packets only to addresses that they know.
	Encapsulate bool
}

// Underlay is a host's own network.
type Underlay struct {
	// Device is the name of the device that has Address, MTU its largest packet in bytes.
	Device string
	MTU    int
	// Address is that of the node, by which others reach it.
	Address netip.Addr
	// Segments are the networks that the device reaches without a router.
	Segments []netip.Prefix
}

// MAC is a hardware address.
type MAC [6]byte

// String returns it in the usual notation.
func (m MAC) String() string { return net.HardwareAddr(m[:]).String() }

// Route says where the packets to the pods of another node go.
type Route struct {
	// Network is that of the node's pods.
	Network netip.Prefix
	// Address is the node's.
	Address netip.Addr
	// Encapsulated packets go in VXLAN to Address and there to the device with hardware address Device. Others go to
	// Address as to a router.
	Encapsulated bool
	Device       MAC
}

// Table is what a host has: a device for VXLAN, and routes.
type Table struct {
	Underlay Underlay
	// Own are the networks of the host's own pods. The device has the first address of each.
	Own []netip.Prefix
	// Device is the hardware address of the device.
	Device MAC
	// Routes are sorted by their networks.
	Routes []Route
}

// Refusal is something that a node says and is not believed.
type Refusal struct {
	// Node is its name.
	Node string
	// What is the network or the address, in the node's own words.
	What   string
	Reason string
}

// Header sizes in bytes: of Ethernet, VXLAN and UDP, and of IP around them.
const (
	headers   = 14 + 8 + 8
	ipHeader  = 20
	ip6Header = 40
)

// MTU returns the largest packet of pods, in bytes, for hosts whose own largest packets have so many: VXLAN takes 50 bytes, or 70
// over IPv6.
func MTU(u Underlay) int {
	if u.Address.Is6() {
		return u.MTU - headers - ip6Header
	}
	return u.MTU - headers - ipHeader
}

// Decide returns the table of the host of the named node, and what is not believed, sorted by nodes. Own is empty if the node is
// not there or has no networks yet; there are no routes then.
func Decide(self string, nodes []*corev1.Node, u Underlay, s Settings) (Table, []Refusal) {
	d := decision{Settings: s, self: self, table: Table{Underlay: u}, taken: map[netip.Prefix]string{}, above: map[netip.Prefix]string{}}
	nodes = slices.Clone(nodes)
	slices.SortFunc(nodes, func(a, b *corev1.Node) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	for _, node := range nodes {
		d.add(node)
	}
	if len(d.table.Own) == 0 {
		d.table.Routes = nil
	}
	slices.SortFunc(d.table.Routes, func(a, b Route) int { return comparePrefixes(a.Network, b.Network) })
	slices.SortFunc(d.refusals, func(a, b Refusal) int { return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.What, b.What)) })
	return d.table, d.refusals
}

type decision struct {
	Settings
	self     string
	table    Table
	refusals []Refusal
	// taken are networks with their nodes, above what contains one, up to the cluster's.
	taken, above map[netip.Prefix]string
}

func (d *decision) refuse(node *corev1.Node, what, reason string) {
	d.refusals = append(d.refusals, Refusal{node.Name, what, reason})
}

// add adds the routes to a node.
func (d *decision) add(node *corev1.Node) {
	networks := d.networks(node)
	if len(networks) == 0 {
		return
	}
	device := deviceOf(networks[0])
	if node.Name == d.self {
		d.table.Own, d.table.Device = networks, device
		return
	}
	addresses := d.addresses(node)
	for _, network := range networks {
		if r, ok := d.route(network, addresses); ok {
			r.Device = device
			if !r.Encapsulated {
				r.Device = MAC{}
			}
			d.table.Routes = append(d.table.Routes, r)
		}
	}
}

// route chooses the way to a network of a node with these addresses.
func (d *decision) route(network netip.Prefix, addresses []netip.Addr) (Route, bool) {
	u := d.table.Underlay
	direct := func(a netip.Addr) bool {
		return !d.Encapsulate && a.Is4() == network.Addr().Is4() && contains(u.Segments, a)
	}
	if i := slices.IndexFunc(addresses, direct); i >= 0 {
		return Route{Network: network, Address: addresses[i]}, true
	}
	i := slices.IndexFunc(addresses, func(a netip.Addr) bool { return a.Is4() == u.Address.Is4() })
	if i < 0 {
		return Route{}, false // it has no address yet, or none that this host can reach
	}
	return Route{Network: network, Address: addresses[i], Encapsulated: true}, true
}

// networks are those of a node that can be believed, at most one of each family.
func (d *decision) networks(node *corev1.Node) (all []netip.Prefix) {
	texts := node.Spec.PodCIDRs
	if len(texts) == 0 && node.Spec.PodCIDR != "" {
		texts = []string{node.Spec.PodCIDR}
	}
	for _, text := range texts {
		network, err := netip.ParsePrefix(text)
		if err != nil || network.Addr().Is4In6() {
			d.refuse(node, text, "it is not a network")
			continue
		}
		network = network.Masked()
		switch other := d.overlapping(network); {
		case !d.within(network):
			d.refuse(node, text, "it is not one of the cluster's networks")
		case other != "":
			d.refuse(node, text, "it overlaps with that of node "+other)
		case slices.ContainsFunc(d.table.Underlay.Segments, network.Overlaps):
			d.refuse(node, text, "it overlaps with the network of the hosts")
		case slices.ContainsFunc(all, func(n netip.Prefix) bool { return n.Addr().Is4() == network.Addr().Is4() }):
			d.refuse(node, text, "the node has another network of that family")
		default:
			all = append(all, network)
			d.take(network, node.Name)
		}
	}
	return all
}

// within reports whether a network is a part of one of the cluster's.
func (d *decision) within(network netip.Prefix) bool {
	return slices.ContainsFunc(d.Networks, func(n netip.Prefix) bool {
		return n.Bits() <= network.Bits() && n.Contains(network.Addr())
	})
}

// overlapping returns the node that has a part of a network, or all of it.
func (d *decision) overlapping(network netip.Prefix) string {
	if node := d.above[network]; node != "" {
		return node
	}
	for bits := network.Bits(); bits >= d.shortest(network); bits-- {
		if node := d.taken[netip.PrefixFrom(network.Addr(), bits).Masked()]; node != "" {
			return node
		}
	}
	return ""
}

func (d *decision) take(network netip.Prefix, node string) {
	d.taken[network] = node
	for bits := network.Bits() - 1; bits >= d.shortest(network); bits-- {
		at := netip.PrefixFrom(network.Addr(), bits).Masked()
		if d.above[at] == "" {
			d.above[at] = node
		}
	}
}

// shortest is the length of the cluster's network that contains another one.
func (d *decision) shortest(network netip.Prefix) int {
	least := network.Bits()
	for _, n := range d.Networks {
		if n.Contains(network.Addr()) {
			least = min(least, n.Bits())
		}
	}
	return least
}

// addresses are those of a node that can be believed.
func (d *decision) addresses(node *corev1.Node) (all []netip.Addr) {
	for _, a := range node.Status.Addresses {
		if a.Type != corev1.NodeInternalIP {
			continue
		}
		address, err := netip.ParseAddr(a.Address)
		switch {
		case err != nil || address.Zone() != "" || address.Is4In6():
			d.refuse(node, a.Address, "it is not an address")
		case !address.IsGlobalUnicast() || address == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
			d.refuse(node, a.Address, "a host cannot have it")
		case address == d.table.Underlay.Address:
			d.refuse(node, a.Address, "it is the address of this host")
		case contains(d.Networks, address):
			d.refuse(node, a.Address, "it is in a network of pods")
		default:
			all = append(all, address)
		}
	}
	return all
}

func contains(networks []netip.Prefix, address netip.Addr) bool {
	return slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(address) })
}

// deviceOf is the hardware address of the device of the node with this network: all hosts find the same without asking. It is
// locally administered; those of IPv4 are all different.
func deviceOf(network netip.Prefix) MAC {
	if network.Addr().Is4() {
		a := network.Addr().As4()
		return MAC{0x0a, 0x58, a[0], a[1], a[2], a[3]}
	}
	sum := sha256.Sum256(network.Addr().AsSlice())
	return MAC{0x0e, sum[0], sum[1], sum[2], sum[3], sum[4]}
}

func comparePrefixes(a, b netip.Prefix) int {
	return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
}
