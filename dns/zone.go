package dns

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Defaults of Options.
const (
	DefaultDomain = "cluster.local"
	// DefaultTTL is in seconds, that of CoreDNS' plugin. Kubeadm's configuration has 30.
	DefaultTTL = 5
	// Version of the specification, which dns-version has.
	Version = "1.1.0"
)

// ErrDomain is the error of a domain that is not one.
var ErrDomain = errors.New("not a domain")

// Options of a Zone. The zero value is ready to use.
type Options struct {
	// Domain is the cluster's, "" for DefaultDomain. A dot at its end and its case do not matter.
	Domain string
	// TTL of records in seconds, 0 for DefaultTTL. At most 3600.
	TTL uint32
	// Reverse are the zones of addresses whose names the Zone knows; nil stands for in-addr.arpa and ip6.arpa. Questions
	// there that it cannot answer belong to somebody else.
	Reverse []string
	// Addresses are the server's own, by which the zone's NS records are found: the services that have them as endpoints.
	Addresses []netip.Addr
}

// Zone answers questions about a cluster's names. Make one with New.
type Zone struct {
	index     *Index
	domain    string // in lowercase, with a dot at its end, as those in reverse
	reverse   []string
	ttl       uint32
	addresses []netip.Addr
}

// New makes a Zone over an index.
func New(index *Index, o Options) (*Zone, error) {
	if o.Reverse == nil {
		o.Reverse = []string{"in-addr.arpa", "ip6.arpa"}
	}
	if o.Domain == "" {
		o.Domain = DefaultDomain
	}
	if o.TTL == 0 {
		o.TTL = DefaultTTL
	}
	if o.TTL > 3600 {
		return nil, fmt.Errorf("a TTL of %d seconds: at most 3600", o.TTL)
	}
	z := &Zone{index: index, ttl: o.TTL, addresses: slices.Clone(o.Addresses)}
	var err error
	if z.domain, err = domain(o.Domain); err != nil {
		return nil, err
	}
	for _, name := range o.Reverse {
		reverse, err := domain(name)
		if err != nil {
			return nil, err
		}
		z.reverse = append(z.reverse, reverse)
	}
	return z, nil
}

func domain(name string) (string, error) {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return "", fmt.Errorf("%w: %q: %s", ErrDomain, name, problems[0])
	}
	return name + ".", nil
}

// Domain returns the cluster's domain, in lowercase and with a dot at its end.
func (z *Zone) Domain() string { return z.domain }

// errName says that a name does not exist.
var errName = errors.New("no such name")

// Answer answers a question. It reports false if that is not for this zone to do: the name belongs to another one, or
// to a reverse zone and nothing of the cluster has its address.
func (z *Zone) Answer(q Question) (Answer, bool) {
	name := strings.ToLower(q.Name)
	zone, own := z.domain, true
	base, ok := below(name, z.domain)
	for i := 0; !ok && i < len(z.reverse); i++ {
		zone, own = z.reverse[i], false
		base, ok = below(name, zone)
	}
	if !ok {
		return Answer{}, false
	}
	l := &lookup{Zone: z, q: q, name: name, zone: zone, base: base, own: own}
	answer, err := l.answer()
	switch {
	case err != nil && !own:
		return Answer{}, false
	case err != nil && !z.index.Synced():
		answer = Answer{Code: ServerFailure}
	case err != nil:
		answer = Answer{Code: NameError}
	case answer.Code == Refused:
		return answer, true
	}
	if len(answer.Records) == 0 {
		answer.Extra, answer.SOA = nil, []Record{l.soa()}
	}
	return answer, true
}

// lookup is a question under way.
type lookup struct {
	*Zone
	q          Question
	name, zone string // in lowercase
	base       string // what precedes the zone in the name
	own        bool   // it is the cluster's domain, not a reverse zone
}

// answer returns the records; none and no error if the name exists.
func (l *lookup) answer() (Answer, error) {
	switch l.q.Type {
	case TypeA, TypeAAAA:
		return l.addressRecords()
	case TypeTXT:
		return l.text()
	case TypeCNAME:
		items, err := l.items()
		if err == nil && len(items) > 0 && items[0].target != "" {
			return Answer{Records: []Record{{Name: l.q.Name, Type: TypeCNAME, TTL: l.ttl, Target: items[0].target}}}, nil
		}
		return Answer{}, err
	case TypePTR:
		return l.pointers()
	case TypeSRV:
		return l.services()
	case TypeSOA:
		if l.base == "" {
			return Answer{Records: []Record{l.soa()}}, nil
		}
		return Answer{}, nil
	case TypeAXFR, TypeIXFR:
		return Answer{Code: Refused}, nil
	case TypeNS:
		if l.base == "" {
			return l.nameServers(), nil
		}
	}
	_, err := l.items()
	return Answer{}, err
}

// item is what a name stands for: an address, which has a name of its own, and perhaps a port, or another name.
type item struct {
	address netip.Addr
	target  string
	name    string
	port    int32
}

// noPort is the port of services and endpoints without ports.
const noPort = -1

// items returns what the name stands for; none and no error if it exists without records.
func (l *lookup) items() ([]item, error) {
	if l.base == "ns.dns" && l.q.Type != TypePTR {
		var items []item
		if l.q.Type == TypeA || l.q.Type == TypeAAAA {
			items = l.servers()
		}
		return items, nil
	}
	r, ok := parse(l.base)
	switch {
	case !ok:
		return nil, errName
	case r.kind == "":
		return nil, nil
	case !l.own, !l.index.namespace(r.namespace):
		return nil, errName
	case r.service == "":
		return nil, nil
	case r.kind == "pod":
		ip, ok := podAddress(r.service)
		if !ok {
			return nil, errName
		}
		return []item{{address: ip, name: r.service + "." + r.namespace + ".pod." + l.domain}}, nil
	}
	items := l.serviceItems(r)
	if len(items) == 0 {
		return nil, errName
	}
	return items, nil
}

// addressRecords answers a question for A or AAAA and follows CNAMEs inside the zone.
func (l *lookup) addressRecords() (Answer, error) {
	items, err := l.items()
	if err != nil {
		return Answer{}, err
	}
	if len(items) == 1 && items[0].target != "" {
		return l.chain(items[0].target), nil
	}
	return Answer{Records: l.addressesOf(l.q.Name, items)}, nil
}

// addressesOf returns the records of the question's type under a name.
func (l *lookup) addressesOf(name string, items []item) []Record {
	var records []Record
	for _, i := range items {
		if i.address.IsValid() && typeOf(i.address) == l.q.Type {
			records = append(records, Record{Name: name, Type: l.q.Type, TTL: l.ttl, Address: i.address})
		}
	}
	return distinct(records)
}

// typeOf is the type of an address's records.
func typeOf(ip netip.Addr) Type {
	if ip.Is4() {
		return TypeA
	}
	return TypeAAAA
}

// distinct removes repeated addresses under one name.
func distinct(records []Record) []Record {
	const few = 16
	if len(records) <= few {
		kept := records[:0]
		for _, r := range records {
			if !slices.Contains(kept, r) {
				kept = append(kept, r)
			}
		}
		return kept
	}
	seen := make(map[Record]bool, len(records))
	return slices.DeleteFunc(records, func(r Record) bool {
		repeated := seen[r]
		seen[r] = true
		return repeated
	})
}

// maxChain is how many CNAMEs are followed.
const maxChain = 10

// chain follows the ExternalNames of services. A chain without addresses at its end, or in a circle, is no answer.
func (l *lookup) chain(target string) Answer {
	records := []Record{{Name: l.q.Name, Type: TypeCNAME, TTL: l.ttl, Target: target}}
	passed := []string{l.name}
	for len(records) <= maxChain+1 {
		name := strings.ToLower(target)
		base, inside := below(name, l.zone)
		if slices.Contains(passed, name) {
			return Answer{}
		}
		if !inside {
			return Answer{Records: records, Follow: target}
		}
		passed = append(passed, name)
		next := &lookup{Zone: l.Zone, q: Question{target, l.q.Type}, name: name, zone: l.zone, base: base, own: l.own}
		items, err := next.items()
		if err != nil || len(items) == 0 {
			return Answer{}
		}
		if items[0].target == "" {
			found := l.addressesOf(target, items)
			if len(found) == 0 {
				return Answer{}
			}
			return Answer{Records: append(records, found...)}
		}
		records = append(records, Record{Name: target, Type: TypeCNAME, TTL: l.ttl, Target: items[0].target})
		target = items[0].target
	}
	return Answer{}
}

func (l *lookup) text() (Answer, error) {
	if l.base == "dns-version" {
		const day = 28800 // eight hours: a version rarely changes
		return Answer{Records: []Record{{Name: l.q.Name, Type: TypeTXT, TTL: day, Text: Version}}}, nil
	}
	if l.base == "ns.dns" {
		return Answer{}, errName
	}
	items, err := l.items()
	if err == nil && len(items) == 0 {
		err = errName // as CoreDNS, although the name exists
	}
	return Answer{}, err
}

// services answers a question for SRV.
func (l *lookup) services() (Answer, error) {
	items, err := l.items()
	if err != nil {
		return Answer{}, err
	}
	items = slices.DeleteFunc(items, func(i item) bool { return i.target != "" })
	var a Answer
	for _, i := range items {
		if i.port == noPort {
			continue
		}
		a.Records = append(a.Records, Record{
			Name: l.q.Name, Type: TypeSRV, TTL: l.ttl, Target: i.name,
			Port: uint16(i.port), Weight: uint16(max(1, 100/len(items))), //nolint:gosec // validated by the API
		})
		a.Extra = append(a.Extra, Record{Name: i.name, Type: typeOf(i.address), TTL: l.ttl, Address: i.address})
	}
	a.Records, a.Extra = distinct(a.Records), distinct(a.Extra)
	return a, nil
}

// pointers answers a question for PTR.
func (l *lookup) pointers() (Answer, error) {
	ip, ok := reversed(l.name)
	if !ok {
		_, err := l.items()
		return Answer{}, err
	}
	names := l.namesOf(ip.Unmap().String())
	if len(names) == 0 {
		return Answer{}, errName
	}
	var a Answer
	for _, name := range names {
		a.Records = append(a.Records, Record{Name: l.q.Name, Type: TypePTR, TTL: l.ttl, Target: name})
	}
	a.Records = distinct(a.Records)
	return a, nil
}

// soa is the SOA record of the zone.
func (l *lookup) soa() Record {
	return Record{Name: l.zone, Type: TypeSOA, TTL: min(l.ttl, 300), Authority: Authority{
		NS: "ns.dns." + l.zone, Mailbox: "hostmaster." + l.zone, Serial: l.index.serial(),
		Refresh: 7200, Retry: 1800, Expire: 86400, Minimum: l.ttl,
	}}
}
