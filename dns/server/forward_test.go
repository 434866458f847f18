package server_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	wire "github.com/miekg/dns"

	"github.com/keelson-dev/keelson/dns/server"
)

func upstreams(addresses ...string) []netip.AddrPort {
	var all []netip.AddrPort
	for _, a := range addresses {
		all = append(all, netip.AddrPortFrom(netip.MustParseAddr(a), 53))
	}
	return all
}

// internet is the resolvers that a server asks, without sockets.
type internet struct {
	mu    sync.Mutex
	asked []string // address, network, name and type
	// answer answers a question to an address; nil is silence.
	answer func(at, network string, q *wire.Msg) *wire.Msg
}

func (i *internet) dial(_ context.Context, network, at string) (net.Conn, error) {
	client, resolver := net.Pipe()
	go func() {
		defer func() { _ = resolver.Close() }()
		q, err := receive(resolver, network)
		if err != nil {
			return
		}
		if len(q.Question[0].Name) == 34 && q.Question[0].Qtype == wire.TypeHINFO {
			return // by which the server recognizes itself
		}
		i.mu.Lock()
		i.asked = append(i.asked, strings.TrimSuffix(at, ":53")+" "+network+" "+q.Question[0].Name+" "+wire.TypeToString[q.Question[0].Qtype])
		answer := i.answer
		i.mu.Unlock()
		a := answer(strings.TrimSuffix(at, ":53"), network, q)
		if a == nil {
			_, _ = resolver.Read(make([]byte, 1)) // until the client gives up
			return
		}
		packed, err := a.Pack()
		if err != nil {
			panic(err)
		}
		if network == "tcp" {
			packed = append([]byte{byte(len(packed) >> 8), byte(len(packed))}, packed...)
		}
		_, _ = resolver.Write(packed)
	}()
	return client, nil
}

func receive(conn net.Conn, network string) (*wire.Msg, error) {
	buf := make([]byte, 4096)
	n, err := conn.Read(buf)
	if err != nil {
		return nil, err
	}
	if network == "tcp" {
		buf, n = buf[2:], n-2
	}
	q := new(wire.Msg)
	return q, q.Unpack(buf[:n])
}

// was returns what was asked since the last call.
func (i *internet) was() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	all := i.asked
	i.asked = nil
	return all
}

func rr(text string) wire.RR {
	r, err := wire.NewRR(text)
	if err != nil {
		panic(err)
	}
	return r
}

// online runs a server that asks an internet, in a bubble.
func online(t *testing.T, o server.Options, f func(t *testing.T, s *server.Server, i *internet)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		i := &internet{answer: func(_, _ string, q *wire.Msg) *wire.Msg {
			a := new(wire.Msg).SetReply(q)
			a.RecursionAvailable = true
			a.Answer = []wire.RR{rr(q.Question[0].Name + " 20 A 192.0.2.80")}
			return a
		}}
		if o.Upstreams == nil {
			o.Upstreams = upstreams("192.0.2.1", "192.0.2.2")
		}
		o.Dial = i.dial
		s, err := server.New(zone(t), o)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- s.Run(ctx) }()
		f(t, s, i)
		select {
		case err := <-ran:
			t.Fatalf("Run ended: %v", err)
		default:
			cancel()
		}
		if err := <-ran; err != nil {
			t.Error(err)
		}
	})
}

func text(a *wire.Msg) string {
	var parts []string
	for _, r := range slices.Concat(a.Answer, a.Ns) {
		parts = append(parts, strings.Join(strings.Fields(r.String()), " "))
	}
	return fmt.Sprintf("%s: %s", wire.RcodeToString[a.Rcode], strings.Join(parts, ", "))
}

func TestForwarding(t *testing.T) {
	online(t, server.Options{}, func(t *testing.T, s *server.Server, i *internet) {
		a := ask(t, s, question("Example.com.", wire.TypeA))
		if text(a) != "NOERROR: example.com. 20 IN A 192.0.2.80" || !a.RecursionAvailable || a.Authoritative {
			t.Errorf("another name: %v", a)
		}
		if was := i.was(); !slices.Equal(was, []string{"192.0.2.1 udp example.com. A"}) {
			t.Errorf("asked: %v", was)
		}
		time.Sleep(19 * time.Second)
		if a := ask(t, s, question("EXAMPLE.com.", wire.TypeA)); text(a) != "NOERROR: example.com. 1 IN A 192.0.2.80" || a.Question[0].Name != "EXAMPLE.com." {
			t.Errorf("remembered: %v", a)
		}
		if was := i.was(); was != nil {
			t.Errorf("asked again: %v", was)
		}
		ask(t, s, question("example.com.", wire.TypeAAAA))
		signed := question("example.com.", wire.TypeA)
		signed.SetEdns0(1000, true)
		ask(t, s, signed)
		unvalidated := question("example.com.", wire.TypeA)
		unvalidated.CheckingDisabled = true
		ask(t, s, unvalidated)
		if was := i.was(); len(was) != 3 {
			t.Errorf("other questions about the name: %v", was)
		}
		time.Sleep(time.Second)
		ask(t, s, question("example.com.", wire.TypeA))
		if was := i.was(); len(was) != 1 {
			t.Errorf("after its TTL: %v", was)
		}
		// The rest of a chain is asked for and remembered, too.
		a = ask(t, s, question("out.default.svc.cluster.local.", wire.TypeA))
		if text(a) != "NOERROR: out.default.svc.cluster.local. 5 IN CNAME example.com., example.com. 20 IN A 192.0.2.80" || !a.Authoritative {
			t.Errorf("a chain: %v", a)
		}
		// Names of addresses that are not the cluster's.
		ask(t, s, question("1.2.3.4.in-addr.arpa.", wire.TypePTR))
		if was := i.was(); !slices.Equal(was, []string{"192.0.2.1 udp 1.2.3.4.in-addr.arpa. PTR"}) {
			t.Errorf("asked: %v", was)
		}
		if ask(t, s, question("no.default.svc.cluster.local.", wire.TypeA)); i.was() != nil {
			t.Error("others were asked about a service")
		}
	})
}

// What is remembered, and for how long.
func TestLifetimes(t *testing.T) {
	soa := func(ttl, minimum int) wire.RR { return rr(fmt.Sprintf("com. %d SOA a. b. 1 2 3 4 %d", ttl, minimum)) }
	long := &wire.TXT{Hdr: wire.RR_Header{Name: "x.com.", Rrtype: wire.TypeTXT, Class: wire.ClassINET, Ttl: 100}}
	for range 10 {
		long.Txt = append(long.Txt, strings.Repeat("x", 250))
	}
	for name, test := range map[string]struct {
		answer wire.Msg
		want   time.Duration
	}{
		"the smallest TTL":     {wire.Msg{Answer: []wire.RR{rr("x.com. 9 CNAME y.com."), rr("y.com. 7 A 192.0.2.1")}}, 7 * time.Second},
		"no longer than":       {wire.Msg{Answer: []wire.RR{rr("x.com. 3600 A 192.0.2.1")}}, 30 * time.Second},
		"zero":                 {wire.Msg{Answer: []wire.RR{rr("x.com. 0 A 192.0.2.1")}}, 0},
		"missing":              {wire.Msg{MsgHdr: wire.MsgHdr{Rcode: wire.RcodeNameError}, Ns: []wire.RR{soa(20, 8)}}, 8 * time.Second},
		"missing, by its TTL":  {wire.Msg{MsgHdr: wire.MsgHdr{Rcode: wire.RcodeNameError}, Ns: []wire.RR{soa(6, 8)}}, 6 * time.Second},
		"empty":                {wire.Msg{Ns: []wire.RR{soa(20, 8)}}, 8 * time.Second},
		"empty, without a SOA": {wire.Msg{Ns: []wire.RR{rr("com. 20 NS a.com.")}}, 0},
		"nothing":              {wire.Msg{}, 0},
		"too large":            {wire.Msg{Answer: []wire.RR{long}}, 0},
		"truncated":            {wire.Msg{MsgHdr: wire.MsgHdr{Truncated: true}, Answer: []wire.RR{rr("x.com. 9 A 192.0.2.1")}}, 0},
		"a failure":            {wire.Msg{MsgHdr: wire.MsgHdr{Rcode: wire.RcodeServerFailure}, Ns: []wire.RR{soa(20, 8)}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			online(t, server.Options{}, func(t *testing.T, s *server.Server, i *internet) {
				i.answer = func(_, _ string, q *wire.Msg) *wire.Msg {
					a := test.answer
					code := a.Rcode
					cut := a.Truncated
					a.SetRcode(q, code)
					a.Truncated = cut
					return &a
				}
				q := question("x.com.", wire.TypeA)
				ask(t, s, q)
				i.was()
				if test.want > 0 {
					time.Sleep(test.want - time.Nanosecond)
					if ask(t, s, q); i.was() != nil {
						t.Errorf("it was asked again before %v", test.want)
					}
					time.Sleep(time.Nanosecond)
				}
				if ask(t, s, q); i.was() == nil {
					t.Errorf("it was remembered for more than %v", test.want)
				}
			})
		})
	}
}

func TestCacheIsBounded(t *testing.T) {
	online(t, server.Options{CacheSize: 10}, func(t *testing.T, s *server.Server, i *internet) {
		for n := range 100 {
			ask(t, s, question(fmt.Sprintf("x%d.com.", n), wire.TypeA))
		}
		i.was()
		for n := range 100 {
			ask(t, s, question(fmt.Sprintf("x%d.com.", n), wire.TypeA))
		}
		if was := i.was(); len(was) < 90 {
			t.Errorf("of 100 answers %d were remembered, at most 10", 100-len(was))
		}
		if ask(t, s, question("x99.com.", wire.TypeA)); i.was() != nil {
			t.Error("the last answer was not remembered")
		}
	})
}

func TestResolversFail(t *testing.T) {
	ok := func(q *wire.Msg) *wire.Msg {
		a := new(wire.Msg).SetReply(q)
		a.Answer = []wire.RR{rr("x.com. 5 A 192.0.2.80")}
		return a
	}
	for name, test := range map[string]struct {
		answer func(at, network string, q *wire.Msg) *wire.Msg
		want   string
		asked  []string
		took   time.Duration
	}{
		"the first is silent": {func(at, _ string, q *wire.Msg) *wire.Msg {
			if at == "192.0.2.1" {
				return nil
			}
			return ok(q)
		}, "NOERROR: x.com. 5 IN A 192.0.2.80", []string{"192.0.2.1 udp x.com. A", "192.0.2.2 udp x.com. A"}, 2 * time.Second},
		"the first refuses": {func(at, _ string, q *wire.Msg) *wire.Msg {
			if at == "192.0.2.1" {
				return new(wire.Msg).SetRcode(q, wire.RcodeRefused)
			}
			return ok(q)
		}, "NOERROR: x.com. 5 IN A 192.0.2.80", []string{"192.0.2.1 udp x.com. A", "192.0.2.2 udp x.com. A"}, 0},
		"all refuse": {func(_, _ string, q *wire.Msg) *wire.Msg {
			return new(wire.Msg).SetRcode(q, wire.RcodeRefused)
		}, "REFUSED: ", []string{"192.0.2.1 udp x.com. A", "192.0.2.2 udp x.com. A"}, 0},
		"all are silent": {func(string, string, *wire.Msg) *wire.Msg { return nil }, "SERVFAIL: ",
			[]string{"192.0.2.1 udp x.com. A", "192.0.2.2 udp x.com. A"}, 4 * time.Second},
		"too long for a packet": {func(_, network string, q *wire.Msg) *wire.Msg {
			a := ok(q)
			a.Truncated = network == "udp"
			return a
		}, "NOERROR: x.com. 5 IN A 192.0.2.80", []string{"192.0.2.1 udp x.com. A", "192.0.2.1 tcp x.com. A"}, 0},
		"an answer to another question": {func(at, _ string, q *wire.Msg) *wire.Msg {
			a := ok(q)
			if at == "192.0.2.1" {
				a.Question[0].Name = "y.com."
			}
			return a
		}, "NOERROR: x.com. 5 IN A 192.0.2.80", []string{"192.0.2.1 udp x.com. A", "192.0.2.2 udp x.com. A"}, 0},
		"an answer with another number": {func(at, _ string, q *wire.Msg) *wire.Msg {
			a := ok(q)
			if at == "192.0.2.1" {
				a.Id++
			}
			return a
		}, "NOERROR: x.com. 5 IN A 192.0.2.80", []string{"192.0.2.1 udp x.com. A", "192.0.2.2 udp x.com. A"}, 0},
		"a question": {func(at, _ string, q *wire.Msg) *wire.Msg {
			if at == "192.0.2.1" {
				return q
			}
			return ok(q)
		}, "NOERROR: x.com. 5 IN A 192.0.2.80", []string{"192.0.2.1 udp x.com. A", "192.0.2.2 udp x.com. A"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			online(t, server.Options{}, func(t *testing.T, s *server.Server, i *internet) {
				i.answer = test.answer
				began := time.Now()
				if a := ask(t, s, question("x.com.", wire.TypeA)); text(a) != test.want {
					t.Errorf("got %s, want %s", text(a), test.want)
				}
				if was := i.was(); !slices.Equal(was, test.asked) {
					t.Errorf("asked %v, want %v", was, test.asked)
				}
				if took := time.Since(began); took != test.took {
					t.Errorf("it took %v, want %v", took, test.took)
				}
			})
		})
	}
}

// Only so many questions are at other resolvers; those about the cluster are answered all the same.
func TestForwardsAreBounded(t *testing.T) {
	online(t, server.Options{MaxForwards: 3, Upstreams: upstreams("192.0.2.1")}, func(t *testing.T, s *server.Server, i *internet) {
		i.answer = func(string, string, *wire.Msg) *wire.Msg { return nil }
		var wg sync.WaitGroup
		for n := range 3 {
			wg.Go(func() { ask(t, s, question(fmt.Sprintf("x%d.com.", n), wire.TypeA)) })
		}
		synctest.Wait()
		if a := ask(t, s, question("x4.com.", wire.TypeA)); a.Rcode != wire.RcodeRefused {
			t.Errorf("one too many: %v", a)
		}
		if a := ask(t, s, question("out.default.svc.cluster.local.", wire.TypeA)); a.Rcode != 0 || len(a.Answer) != 1 {
			t.Errorf("a chain: %v", a)
		}
		if a := ask(t, s, question("web.default.svc.cluster.local.", wire.TypeA)); a.Rcode != 0 || len(a.Answer) != 1 {
			t.Errorf("a service: %v", a)
		}
		wg.Wait()
		i.answer = func(_, _ string, q *wire.Msg) *wire.Msg { return new(wire.Msg).SetReply(q) }
		if a := ask(t, s, question("x5.com.", wire.TypeA)); a.Rcode != 0 {
			t.Errorf("afterwards: %v", a)
		}
	})
}

// A server whose resolver asks it back does not go on asking.
func TestLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s *server.Server
		var dials int
		var mu sync.Mutex
		dial := func(context.Context, string, string) (net.Conn, error) {
			mu.Lock()
			defer mu.Unlock()
			dials++
			return &asPackets{s.Connect()}, nil
		}
		var err error
		if s, err = server.New(zone(t), server.Options{Upstreams: upstreams("192.0.2.1"), Dial: dial}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- s.Run(ctx) }()
		synctest.Wait()
		if a := ask(t, s, question("x.com.", wire.TypeA)); a.Rcode != wire.RcodeServerFailure {
			t.Errorf("another name: %v", a)
		}
		if a := ask(t, s, question("web.default.svc.cluster.local.", wire.TypeA)); a.Rcode != 0 {
			t.Errorf("a service: %v", a)
		}
		if mu.Lock(); dials != 1 {
			t.Errorf("%d questions", dials)
		}
		mu.Unlock()
		cancel()
		if err := <-ran; err != nil {
			t.Error(err)
		}
	})
}

// asPackets gives a stream the form of packets.
type asPackets struct{ net.Conn }

func (p *asPackets) Write(b []byte) (int, error) {
	if _, err := p.Conn.Write(append([]byte{byte(len(b) >> 8), byte(len(b))}, b...)); err != nil {
		return 0, err
	}
	return len(b), nil
}

func (p *asPackets) Read(b []byte) (int, error) {
	if _, err := p.Conn.Read(make([]byte, 2)); err != nil {
		return 0, err
	}
	return p.Conn.Read(b)
}

// The server's own address among its resolvers is left out.
func TestOwnAddress(t *testing.T) {
	packets, err := new(net.ListenConfig).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	own := packets.LocalAddr().(*net.UDPAddr).AddrPort()
	dial := func(context.Context, string, string) (net.Conn, error) {
		t.Error("it was asked")
		return nil, errors.New("no")
	}
	s, _ := serve(t, zone(t), server.Options{Packets: []net.PacketConn{packets}, Upstreams: []netip.AddrPort{own}, Dial: dial})
	if a := ask(t, s, question("x.com.", wire.TypeA)); a.Rcode != wire.RcodeRefused {
		t.Errorf("%v", a)
	}
}

func TestParseUpstreams(t *testing.T) {
	got, err := server.ParseUpstreams(strings.NewReader("# nameserver 1.1.1.1\nsearch a\nnameserver 192.0.2.1\n nameserver fd00::1 \nnameserver\noptions x\n"))
	if want := []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:53"), netip.MustParseAddrPort("[fd00::1]:53")}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := server.ParseUpstreams(strings.NewReader("nameserver x\n")); err == nil {
		t.Error("what is no address")
	}
	if _, err := server.ParseUpstreams(strings.NewReader("options " + strings.Repeat("x", 1<<17))); err == nil {
		t.Error("a line that is too long")
	}
}
