// Package proxytest has the suite that every proxy.Writer passes.
package proxytest

import (
	"maps"
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/proxy"
)

// Subject is a Writer to test, and what becomes of packets where it writes.
type Subject struct {
	Writer proxy.Writer
	// Decide says what becomes of a packet, or asks by sending one. It may leave out everything but the action and, if
	// packets are sent, return one endpoint of several; as nobody else has the addresses, what is passed may seem to be
	// dropped. It is given packets from Client to addresses of services, and what should become of them, from which it may
	// tell how long to wait for an answer.
	Decide func(t *testing.T, p proxy.Packet, want proxy.Action) proxy.Decision
	// Client is the address of a pod, Endpoints are others that answer.
	Client    netip.Addr
	Endpoints []netip.AddrPort
}

// Run tests Writers, of which each subtest gets a new one whose tables are empty.
func Run(t *testing.T, subject func(t *testing.T) Subject) {
	for name, test := range map[string]func(*suite){
		"update before sync":      (*suite).unsynced,
		"changes":                 (*suite).changes,
		"sync replaces":           (*suite).replaces,
		"claims":                  (*suite).claims,
		"intact":                  (*suite).intact,
		"same port and protocols": (*suite).protocols,
	} {
		t.Run(name, func(t *testing.T) {
			s := &suite{T: t, Subject: subject(t), model: proxy.Tables{
				Settings: proxy.Settings{Services: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12")}}, Services: map[proxy.Service][]proxy.Port{},
			}}
			test(s)
		})
	}
}

// suite runs one test and remembers what should be in effect.
type suite struct {
	*testing.T
	Subject
	model proxy.Tables
}

func named(name string) proxy.Service { return proxy.Service{Namespace: "default", Name: name} }

func at(last byte) netip.Addr { return netip.AddrFrom4([4]byte{10, 96, 0, last}) }

// port is one of a service with so many endpoints.
func (s *suite) port(ip netip.Addr, endpoints int) proxy.Port {
	return proxy.Port{Protocol: corev1.ProtocolTCP, ClusterIP: ip, Port: 80, Cluster: s.Endpoints[:endpoints], Serving: s.Endpoints[:endpoints]}
}

func (s *suite) sync() {
	s.Helper()
	if err := s.Writer.Sync(s.Context(), s.model); err != nil {
		s.Fatal(err)
	}
	s.check()
}

func (s *suite) update(services map[proxy.Service][]proxy.Port) {
	s.Helper()
	maps.Copy(s.model.Services, services)
	maps.DeleteFunc(s.model.Services, func(_ proxy.Service, ports []proxy.Port) bool { return len(ports) == 0 })
	if err := s.Writer.Update(s.Context(), services); err != nil {
		s.Fatal(err)
	}
	s.check()
}

// check asks about all addresses in use and compares with the model.
func (s *suite) check() {
	s.Helper()
	for last := byte(1); last <= 4; last++ {
		for _, protocol := range []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP} {
			p := proxy.Packet{From: s.Client, To: netip.AddrPortFrom(at(last), 80), Protocol: protocol}
			want := s.model.Decide(p)
			got := s.Decide(s.T, p, want.Action)
			if got.Action != want.Action && (want.Action != proxy.Pass || got.Action != proxy.Drop) {
				s.Errorf("%s/%s: %v, want %v", p.To, protocol, got, want)
			}
			for _, e := range got.Endpoints {
				if !contains(want.Endpoints, e) {
					s.Errorf("%s/%s: goes to %s, want %v", p.To, protocol, e, want.Endpoints)
				}
			}
		}
	}
}

func contains(all []netip.AddrPort, one netip.AddrPort) bool {
	for _, e := range all {
		if e == one {
			return true
		}
	}
	return false
}

func (s *suite) unsynced() {
	if err := s.Writer.Update(s.Context(), map[proxy.Service][]proxy.Port{named("a"): {s.port(at(1), 1)}}); err == nil {
		s.Error("no error")
	}
	if intact, err := s.Writer.Intact(s.Context()); intact || err != nil {
		s.Errorf("intact: %v, %v", intact, err)
	}
	s.sync()
}

func (s *suite) changes() {
	s.model.Services[named("a")] = []proxy.Port{s.port(at(1), 1)}
	s.sync()
	s.update(map[proxy.Service][]proxy.Port{named("b"): {s.port(at(2), 0)}})
	s.update(map[proxy.Service][]proxy.Port{named("a"): {s.port(at(1), 2)}, named("b"): {s.port(at(2), 2)}})
	s.update(map[proxy.Service][]proxy.Port{named("a"): {s.port(at(3), 1)}})
	sticky := s.port(at(3), 2)
	sticky.Affinity = time.Hour
	s.update(map[proxy.Service][]proxy.Port{named("a"): {sticky}})
	sticky.Affinity = time.Minute
	s.update(map[proxy.Service][]proxy.Port{named("a"): {sticky}})
	s.update(map[proxy.Service][]proxy.Port{named("a"): {s.port(at(3), 0)}})
	s.update(map[proxy.Service][]proxy.Port{named("a"): nil, named("unknown"): nil})
	s.update(map[proxy.Service][]proxy.Port{named("b"): nil})
}

func (s *suite) replaces() {
	s.model.Services[named("a")] = []proxy.Port{s.port(at(1), 1)}
	s.sync()
	s.model.Services = map[proxy.Service][]proxy.Port{named("b"): {s.port(at(2), 2)}}
	s.sync()
	s.update(map[proxy.Service][]proxy.Port{named("b"): nil})
	s.model.Settings.Services = nil
	s.sync()
}

// claims has several services claim an address: the first has it, and the next if it goes.
func (s *suite) claims() {
	s.sync()
	claim := func(ip netip.Addr, endpoints int) []proxy.Port {
		p := s.port(ip, endpoints)
		p.External = []netip.Addr{at(4)}
		return []proxy.Port{p}
	}
	s.update(map[proxy.Service][]proxy.Port{named("b"): claim(at(2), 1)})
	s.update(map[proxy.Service][]proxy.Port{named("a"): claim(at(1), 0)})
	s.update(map[proxy.Service][]proxy.Port{named("c"): claim(at(3), 2)})
	s.update(map[proxy.Service][]proxy.Port{named("a"): nil})
	s.update(map[proxy.Service][]proxy.Port{named("b"): {s.port(at(2), 1)}})
	s.update(map[proxy.Service][]proxy.Port{named("c"): nil})
}

func (s *suite) intact() {
	s.sync()
	for range 3 {
		if intact, err := s.Writer.Intact(s.Context()); !intact || err != nil {
			s.Errorf("intact: %v, %v", intact, err)
		}
		s.update(map[proxy.Service][]proxy.Port{named("a"): {s.port(at(1), 1)}})
	}
}

func (s *suite) protocols() {
	both := func(tcp, udp int) []proxy.Port {
		u := s.port(at(1), udp)
		u.Protocol, u.Name = corev1.ProtocolUDP, "udp"
		return []proxy.Port{s.port(at(1), tcp), u}
	}
	s.model.Services[named("a")] = both(1, 0)
	s.sync()
	s.update(map[proxy.Service][]proxy.Port{named("a"): both(0, 2)})
	s.update(map[proxy.Service][]proxy.Port{named("a"): both(2, 2)[:1]})
	s.update(map[proxy.Service][]proxy.Port{named("a"): both(2, 2)[1:]})
}
