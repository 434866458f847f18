package nftables

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/proxy"
)

// kind is one of the table's sets and maps, of which there is one for each family.
type kind int

const (
	services    kind = iota // address . protocol . port: pool of endpoints . choice, by their number and affinity . pool
	shortcuts               // the same for clients in the cluster, to whom the external policy does not apply
	masqueraded             // address . protocol . port: clients are masqueraded
	rejected                // address . protocol . port: nothing is behind it
	dropped                 // address . protocol . port: the policy leaves nothing
	firewalled              // address . protocol . port: only some may reach it
	allowed                 // the same . source: those who may
	endpoints               // pool . index: address . port
	numbered                // pool . index: 0 . number of an endpoint of a sticky service
	members                 // number . pool: address . port
	affinity                // service . client: anything . number of an endpoint, for a time
	hairpins                // address . address . protocol . port of local endpoints
	clusterIPs              // address
	pods                    // ranges of addresses, as the following
	nodePorts
	ranges
	picks // choice: chain, for each way to find the endpoints
	picksShort
	picksNode
	picksNodeShort
	kinds
)

func (k kind) name(f family) string {
	return [...]string{
		"services", "shortcuts", "masqueraded", "rejected", "dropped", "firewalled", "allowed", "endpoints", "numbered", "members", "affinity", "hairpins",
		"cluster-ips", "pods", "node-port-ips", "service-ips", "pick", "pick-short", "pick-node", "pick-node-short",
	}[k] + f.suffix()
}

// family is an IP family and what depends on it.
type family int

const (
	v4 family = iota
	v6
	families
)

func familyOf(is6 bool) family {
	if is6 {
		return v6
	}
	return v4
}

func (f family) suffix() string { return [...]string{"-4", "-6"}[f] }
func (f family) proto() uint8   { return [...]uint8{unix.NFPROTO_IPV4, unix.NFPROTO_IPV6}[f] }
func (f family) bytes() uint32  { return [...]uint32{4, 16}[f] }
func (f family) words() register {
	return register(f.bytes() / 4)
}
func (f family) source() uint32      { return [...]uint32{12, 8}[f] }
func (f family) destination() uint32 { return [...]uint32{16, 24}[f] }
func (f family) addrType() dataType  { return [...]dataType{typeIPv4, typeIPv6}[f] }

// dataType is the type of a part of a key or a value, by which other programs show it.
type dataType uint32

const (
	typeIPv4  dataType = 7
	typeIPv6  dataType = 8
	typeProto dataType = 12
	typePort  dataType = 13
	typeWord  dataType = 19 // a mark: 32 bits in the host's order
)

func (t dataType) size() uint32 {
	switch t {
	case typeIPv6:
		return 16
	default:
		return 4 // padded
	}
}

// length is the size without padding.
func (t dataType) length() uint32 {
	return map[dataType]uint32{typeIPv4: 4, typeIPv6: 16, typeProto: 1, typePort: 2, typeWord: 4}[t]
}

// set describes a set or map.
type set struct {
	kind       kind
	key, data  []dataType
	flags      uint32
	verdicts   bool // the data are verdicts
	size       uint32
	concatEnds bool // the key is a concatenation with a range
}

// clients is how many clients of sticky services are remembered.
const clients = 1 << 17

// sets are all of a family.
func sets(f family) []set {
	a := f.addrType()
	front, where := []dataType{a, typeProto, typePort}, []dataType{typeWord, typeWord, typeWord}
	to := []dataType{a, typePort}
	words := []dataType{typeWord, typeWord}
	all := []set{
		{kind: services, key: front, data: where},
		{kind: shortcuts, key: front, data: where},
		{kind: masqueraded, key: front},
		{kind: rejected, key: front},
		{kind: dropped, key: front},
		{kind: firewalled, key: front},
		{kind: allowed, key: []dataType{a, typeProto, typePort, a}, flags: unix.NFT_SET_INTERVAL | setConcat, concatEnds: true},
		{kind: endpoints, key: words, data: to},
		{kind: numbered, key: words, data: words},
		{kind: members, key: words, data: to},
		{kind: affinity, key: []dataType{typeWord, a}, data: words, flags: unix.NFT_SET_TIMEOUT | unix.NFT_SET_EVAL, size: clients},
		{kind: hairpins, key: []dataType{a, a, typeProto, typePort}},
		{kind: clusterIPs, key: []dataType{a}},
	}
	for k := pods; k <= ranges; k++ {
		all = append(all, set{kind: k, key: []dataType{a}, flags: unix.NFT_SET_INTERVAL})
	}
	for k := picks; k <= picksNodeShort; k++ {
		all = append(all, set{kind: k, key: []dataType{typeWord}, verdicts: true})
	}
	return all
}

// chain is a chain and its rules. With a hook it is where packets enter.
type chain struct {
	name     string
	nat      bool
	hook     int32 // -1 without one
	priority int32
	rules    [][]expression
}

// chains are those that do not depend on services.
func chains(s proxy.Settings) []chain {
	hooked := []chain{
		{name: "firewall-prerouting", hook: unix.NF_INET_PRE_ROUTING, priority: -110},
		{name: "firewall-output", hook: unix.NF_INET_LOCAL_OUT, priority: -110},
		{name: "filter-input", hook: unix.NF_INET_LOCAL_IN},
		{name: "filter-forward", hook: unix.NF_INET_FORWARD},
		{name: "filter-output", hook: unix.NF_INET_LOCAL_OUT},
		{name: "nat-prerouting", nat: true, hook: unix.NF_INET_PRE_ROUTING, priority: -100},
		{name: "nat-output", nat: true, hook: unix.NF_INET_LOCAL_OUT, priority: -100},
		{name: "nat-postrouting", nat: true, hook: unix.NF_INET_POST_ROUTING, priority: 100},
	}
	var plain []chain
	for f := range families {
		r := rules{f: f, settings: s}
		plain = append(plain,
			chain{name: "firewall" + f.suffix(), hook: -1, rules: r.firewall()},
			chain{name: "node-ports" + f.suffix(), hook: -1, rules: r.unservedNodePorts()},
			chain{name: "unserved" + f.suffix(), hook: -1, rules: r.unserved()},
			chain{name: "cluster-ips" + f.suffix(), hook: -1, rules: r.unknown()},
			chain{name: "services" + f.suffix(), hook: -1, rules: r.services()},
		)
		to := func(name string, before ...expression) []expression {
			return append(append([]expression{meta(0, metaNFProto), compare(0, false, []byte{f.proto()})}, before...), end(unix.NFT_JUMP, name+f.suffix()))
		}
		fresh := func(name string) []expression {
			return to(name, ct(0, ctState), mask(0, 0, native(ctStateNew), native(0)), compare(0, true, native(0)))
		}
		hooked[0].rules = append(hooked[0].rules, fresh("firewall"))
		hooked[1].rules = append(hooked[1].rules, fresh("firewall"))
		hooked[2].rules = append(hooked[2].rules, fresh("node-ports"), fresh("unserved"))
		hooked[3].rules = append(hooked[3].rules, fresh("unserved"), fresh("cluster-ips"))
		hooked[4].rules = append(hooked[4].rules, fresh("unserved"), fresh("cluster-ips"))
		hooked[5].rules = append(hooked[5].rules, to("services"))
		hooked[6].rules = append(hooked[6].rules, to("services"))
		hooked[7].rules = append(hooked[7].rules, r.hairpin())
	}
	hooked[7].rules = append([][]expression{marked()}, hooked[7].rules...)
	return append(plain, hooked...)
}

// marked masquerades what is to be, and takes the mark off.
func marked() []expression {
	return []expression{
		meta(0, unix.NFT_META_MARK), mask(1, 0, native(masqueradedMark), native(0)), compare(1, true, native(0)),
		mask(0, 0, native(^uint32(0)), native(masqueradedMark)), setMark(0), masquerade(),
	}
}

// choice is a chain for a number of endpoints.
type choice struct {
	n        uint32
	affinity time.Duration
}

func (c choice) chain(k kind, f family) string {
	return fmt.Sprintf("%s-%d-%d", k.name(f), c.n, c.affinity/time.Second)
}
