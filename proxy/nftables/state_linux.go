package nftables

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"github.com/keelson-dev/keelson/proxy"
)

// state is what the kernel has, in terms of services.
type state struct {
	services map[proxy.Service][]proxy.Port
	numbers  map[identity]uint32
	taken    map[uint32]bool
	fronts   map[front][]claim // by service, then by place in the service
	shared   map[element]int   // how many ports need the element
	choices  map[choice]uint32 // numbers them
	chains   map[familyChoice]bool
	users    map[familyChoice]int // how many pools use the chains; those without remain
}

type familyChoice struct {
	family family
	choice choice
	number uint32
}

// claim is what a service wants with a front. The first of several has it.
type claim struct {
	service proxy.Service
	place   int // of the port among the service's
	effect  effect
}

func compareClaims(a, b claim) int {
	return cmp.Or(proxy.CompareServices(a.service, b.service), cmp.Compare(a.place, b.place))
}

func newState(services int) *state {
	return &state{
		services: make(map[proxy.Service][]proxy.Port, services), numbers: make(map[identity]uint32, services),
		taken: make(map[uint32]bool, services), fronts: make(map[front][]claim, services), shared: map[element]int{}, choices: map[choice]uint32{}, chains: map[familyChoice]bool{},
		users: map[familyChoice]int{},
	}
}

// number is the number of a port, which it keeps until it is released.
func (s *state) number(i identity) uint32 {
	if n, ok := s.numbers[i]; ok {
		return n
	}
	for attempt := byte(0); ; attempt++ {
		if n := i.number(attempt); !s.taken[n] {
			s.numbers[i], s.taken[n] = n, true
			return n
		}
	}
}

// effect is what becomes of packets to a front.
func (s *state) effect(f front) effect {
	if all := s.fronts[f]; len(all) > 0 {
		return all[0].effect
	}
	return effect{}
}

// serving are the endpoints behind a front.
func (s *state) serving(f front) []netip.AddrPort {
	all := s.fronts[f]
	if len(all) == 0 {
		return nil
	}
	return s.services[all[0].service][all[0].place].Serving
}

// choice is the number of a choice, which it keeps.
func (s *state) choice(c choice) uint32 {
	n, ok := s.choices[c]
	if !ok {
		n = uint32(len(s.choices) + 1) //nolint:gosec // few
		s.choices[c] = n
	}
	return n
}

// crowded reports whether many chains are of no use: services may have had any number of endpoints and any affinity.
func (s *state) crowded() bool {
	const few = 128
	return len(s.chains) > few && len(s.chains) > 2*len(s.users)
}

// changes collects what a transaction does to elements.
type changes struct {
	elements map[element]change // by element without value
	choices  []familyChoice     // that are new
}

type change struct {
	had, has  bool
	was, will string
}

func (c *changes) remove(e element) {
	value := e.value
	e.value = ""
	now, seen := c.elements[e]
	if !seen {
		now.had, now.was = true, value
	}
	now.has = false
	c.elements[e] = now
}

func (c *changes) add(e element) {
	value := e.value
	e.value = ""
	now := c.elements[e]
	now.has, now.will = true, value
	c.elements[e] = now
}

// visit calls the functions for what all ports of a service need: own elements, those it shares with others, fronts and chains.
func (s *state) visit(name proxy.Service, ports []proxy.Port, v visitor) {
	for i := range ports {
		port := &ports[i]
		p := plan{port: port, number: s.number(identityOf(name, port)), choices: s.choice}
		p.pools(v.own)
		p.fronts(func(f front, e effect) { v.front(f, claim{name, i, e}) })
		f := familyOf(port.Is6())
		v.shared(element{family: f, set: clusterIPs, key: string(port.ClusterIP.AsSlice())})
		for _, to := range port.Own {
			v.shared(hairpin(to, protocolNumber(port.Protocol)))
		}
		for _, pool := range [][]netip.AddrPort{port.Cluster, port.Local} {
			if len(pool) > 0 {
				c := p.choice(pool)
				v.choice(familyChoice{f, c, s.choice(c)})
			}
		}
	}
}

type visitor struct {
	own, shared func(element)
	front       func(front, claim)
	choice      func(familyChoice)
}

// claim adds a service. What is new goes to the functions.
func (s *state) claim(name proxy.Service, ports []proxy.Port, add func(element), chain func(familyChoice)) {
	if len(ports) == 0 {
		return
	}
	s.services[name] = ports
	s.visit(name, ports, visitor{
		own: add,
		shared: func(e element) {
			if s.shared[e]++; s.shared[e] == 1 {
				add(e)
			}
		},
		front: func(f front, c claim) {
			all := s.fronts[f]
			at, _ := slices.BinarySearchFunc(all, c, compareClaims)
			s.fronts[f] = slices.Insert(all, at, c)
		},
		choice: func(c familyChoice) {
			s.users[c]++
			if !s.chains[c] {
				s.chains[c] = true
				chain(c)
			}
		},
	})
}

// retract removes a service.
func (s *state) retract(name proxy.Service, remove func(element)) {
	ports := s.services[name]
	delete(s.services, name)
	s.visit(name, ports, visitor{
		own: remove,
		shared: func(e element) {
			if s.shared[e]--; s.shared[e] == 0 {
				delete(s.shared, e)
				remove(e)
			}
		},
		front: func(f front, c claim) {
			left := slices.DeleteFunc(s.fronts[f], func(o claim) bool { return compareClaims(o, c) == 0 })
			if s.fronts[f] = left; len(left) == 0 {
				delete(s.fronts, f)
			}
		},
		choice: func(c familyChoice) { // its chains stay for the next service with as many endpoints
			if s.users[c]--; s.users[c] == 0 {
				delete(s.users, c)
			}
		},
	})
}

// release forgets the numbers of ports that are gone.
func (s *state) release(name proxy.Service, had []proxy.Port) {
	kept := s.services[name]
	for i := range had {
		id := identityOf(name, &had[i])
		if !slices.ContainsFunc(kept, func(p proxy.Port) bool { return identityOf(name, &p) == id }) {
			delete(s.taken, s.numbers[id])
			delete(s.numbers, id)
		}
	}
}

// update changes services and returns what that does to elements.
func (s *state) update(services map[proxy.Service][]proxy.Port) *changes {
	c := &changes{elements: map[element]change{}}
	before := map[front]effect{}
	touch := func(name proxy.Service, ports []proxy.Port) {
		s.visit(name, ports, visitor{
			own: func(element) {}, shared: func(element) {}, choice: func(familyChoice) {},
			front: func(f front, _ claim) { before[f] = s.effect(f) },
		})
	}
	names := slices.SortedFunc(maps.Keys(services), proxy.CompareServices)
	for _, name := range names {
		touch(name, s.services[name])
		touch(name, services[name])
	}
	for _, name := range names {
		had := s.services[name]
		s.retract(name, c.remove)
		s.claim(name, services[name], c.add, func(f familyChoice) { c.choices = append(c.choices, f) })
		s.release(name, had)
	}
	for f, was := range before {
		is := s.effect(f)
		if was.equal(is) {
			continue
		}
		for _, e := range was.elements(f) {
			c.remove(e)
		}
		for _, e := range is.elements(f) {
			c.add(e)
		}
	}
	return c
}
