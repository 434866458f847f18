package server_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	wire "github.com/miekg/dns"
	"go.uber.org/goleak"

	"github.com/keelson-dev/keelson/dns/server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSockets(t *testing.T) {
	_, at := serve(t, zone(t), server.Options{})
	for _, network := range []string{"udp", "tcp"} {
		q := question("Web.default.svc.cluster.local.", wire.TypeA)
		a := exchange(t, network, at, q)
		if a.Rcode != 0 || !a.Authoritative || !a.RecursionDesired || a.RecursionAvailable || a.IsEdns0() != nil || len(a.Answer) != 1 ||
			a.Answer[0].String() != "Web.default.svc.cluster.local.\t5\tIN\tA\t10.96.0.1" || a.Question[0] != q.Question[0] {
			t.Errorf("%s: %v", network, a)
		}
		a = exchange(t, network, at, question("no.default.svc.cluster.local.", wire.TypeA))
		if a.Rcode != wire.RcodeNameError || !a.Authoritative || len(a.Ns) != 1 || a.Ns[0].Header().Rrtype != wire.TypeSOA {
			t.Errorf("%s: %v", network, a)
		}
		a = exchange(t, network, at, question("example.com.", wire.TypeA))
		if a.Rcode != wire.RcodeRefused || a.Authoritative {
			t.Errorf("%s: without resolvers: %v", network, a)
		}
		a = exchange(t, network, at, question("out.default.svc.cluster.local.", wire.TypeA))
		if a.Rcode != 0 || len(a.Answer) != 1 || a.Answer[0].String() != "out.default.svc.cluster.local.\t5\tIN\tCNAME\texample.com." {
			t.Errorf("%s: a chain without resolvers: %v", network, a)
		}
	}
}

// Each type of record has its own encoding.
func TestRecords(t *testing.T) {
	s, err := server.New(zone(t, endpoints(1)), server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		kind uint16
		want string
	}{
		{"fd00--1.default.pod.cluster.local.", wire.TypeAAAA, "fd00--1.default.pod.cluster.local.\t5\tIN\tAAAA\tfd00::1"},
		{"out.default.svc.cluster.local.", wire.TypeCNAME, "out.default.svc.cluster.local.\t5\tIN\tCNAME\texample.com."},
		{"1.0.96.10.in-addr.arpa.", wire.TypePTR, "1.0.96.10.in-addr.arpa.\t5\tIN\tPTR\tweb.default.svc.cluster.local."},
		{"_http._tcp.many.default.svc.cluster.local.", wire.TypeSRV, "_http._tcp.many.default.svc.cluster.local.\t5\tIN\tSRV\t0 100 80 10-1-0-0.many.default.svc.cluster.local."},
		{"dns-version.cluster.local.", wire.TypeTXT, "dns-version.cluster.local.\t28800\tIN\tTXT\t\"1.1.0\""},
	} {
		a := ask(t, s, question(test.name, test.kind))
		if len(a.Answer) != 1 || a.Answer[0].String() != test.want {
			t.Errorf("%s: %v", test.name, a)
		}
	}
	a := ask(t, s, question("cluster.local.", wire.TypeSOA))
	if soa, ok := a.Answer[0].(*wire.SOA); !ok || soa.Ns != "ns.dns.cluster.local." || soa.Mbox != "hostmaster.cluster.local." || soa.Serial == 0 ||
		soa.Refresh != 7200 || soa.Retry != 1800 || soa.Expire != 86400 || soa.Minttl != 5 {
		t.Errorf("SOA: %v", a)
	}
	a = ask(t, s, question("many.default.svc.cluster.local.", wire.TypeSRV))
	if len(a.Extra) != 1 || a.Extra[0].String() != "10-1-0-0.many.default.svc.cluster.local.\t5\tIN\tA\t10.1.0.0" {
		t.Errorf("the addresses of SRV: %v", a)
	}
}

// Answers fit into what the client can read.
func TestSizes(t *testing.T) {
	_, at := serve(t, zone(t, endpoints(1000)), server.Options{})
	for _, test := range []struct {
		name    string
		network string
		edns    uint16 // 0 is none
		most    int
		all     bool
	}{
		{"plain", "udp", 0, 512, false},
		{"less than the least", "udp", 100, 512, false},
		{"what it says", "udp", 700, 700, false},
		{"no more than fits into a packet", "udp", 65535, 1232, false},
		{"a stream", "tcp", 0, 65535, true},
		{"a stream with extensions", "tcp", 512, 65535, true},
	} {
		q := question("many.default.svc.cluster.local.", wire.TypeA)
		if test.edns > 0 {
			q.SetEdns0(test.edns, true)
		}
		a := exchange(t, test.network, at, q)
		packed, err := a.Pack()
		if err != nil {
			t.Fatal(err)
		}
		a.Compress = true
		compressed, err := a.Pack()
		if err != nil {
			t.Fatal(err)
		}
		if len(compressed) > test.most || a.Truncated == test.all || (len(a.Answer) == 1000) != test.all || len(a.Answer) == 0 {
			t.Errorf("%s: %d bytes (%d compressed), truncated %t, %d records", test.name, len(packed), len(compressed), a.Truncated, len(a.Answer))
		}
		if edns := a.IsEdns0(); (edns != nil) != (test.edns > 0) || edns != nil && (edns.UDPSize() != 1232 || !edns.Do() || edns.Version() != 0) {
			t.Errorf("%s: extensions %v", test.name, edns)
		}
	}
	// 1000 services with names of their own are too many for any message.
	a := exchange(t, "tcp", at, question("_http._tcp.many.default.svc.cluster.local.", wire.TypeSRV))
	if !a.Truncated && len(a.Answer) != 1000 {
		t.Errorf("a large answer: %d records, not marked", len(a.Answer))
	}
}

// Any of the addresses may come first.
func TestOrder(t *testing.T) {
	s, err := server.New(zone(t, endpoints(4)), server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	first := map[string]bool{}
	for range 1000 {
		a := ask(t, s, question("many.default.svc.cluster.local.", wire.TypeA))
		if len(a.Answer) != 4 {
			t.Fatal(a)
		}
		first[a.Answer[0].(*wire.A).A.String()] = true
	}
	if len(first) != 4 {
		t.Errorf("these came first: %v", first)
	}
}

func TestWhatIsNoProperQuestion(t *testing.T) {
	s, err := server.New(zone(t), server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	good := func(change func(*wire.Msg)) []byte {
		q := question("web.default.svc.cluster.local.", wire.TypeA)
		change(q)
		packed, err := q.Pack()
		if err != nil {
			t.Fatal(err)
		}
		return packed
	}
	plain := good(func(*wire.Msg) {})
	raw := func(at int, b byte) []byte {
		p := slices.Clone(plain)
		p[at] = b
		return p
	}
	extended := good(func(q *wire.Msg) { q.SetEdns0(1232, false) })
	const nothing = -1
	for name, test := range map[string]struct {
		query []byte
		code  int
	}{
		"a proper one":       {plain, wire.RcodeSuccess},
		"an answer":          {good(func(q *wire.Msg) { q.Response = true }), nothing},
		"less than a header": {plain[:11], nothing},
		"nothing":            {nil, nothing},
		"a header alone":     {plain[:12], wire.RcodeFormatError},
		"half a name":        {plain[:20], wire.RcodeFormatError},
		"half a record":      {extended[:len(extended)-2], wire.RcodeFormatError},
		"no question":        {raw(5, 0), wire.RcodeFormatError},
		"two questions":      {raw(5, 2), wire.RcodeFormatError},
		"256 questions":      {raw(4, 1), wire.RcodeFormatError},
		"256 answers":        {raw(6, 1), wire.RcodeFormatError},
		"256 authorities":    {raw(8, 1), wire.RcodeFormatError},
		"256 more records":   {raw(10, 1), wire.RcodeFormatError},
		"one of each": {good(func(q *wire.Msg) {
			q.Answer, q.Ns, q.Extra = []wire.RR{rr("x. 1 A 1.2.3.4")}, []wire.RR{rr("x. 1 A 1.2.3.4")}, []wire.RR{rr("x. 1 A 1.2.3.4"), rr("x. 1 A 1.2.3.4")}
		}), wire.RcodeSuccess},
		"two answers":            {raw(7, 2), wire.RcodeFormatError},
		"two authorities":        {raw(9, 2), wire.RcodeFormatError},
		"three more records":     {raw(11, 3), wire.RcodeFormatError},
		"a notification":         {good(func(q *wire.Msg) { q.Opcode = wire.OpcodeNotify }), wire.RcodeNotImplemented},
		"an update":              {good(func(q *wire.Msg) { q.Opcode = wire.OpcodeUpdate }), wire.RcodeNotImplemented},
		"of another class":       {good(func(q *wire.Msg) { q.Question[0].Qclass = wire.ClassCHAOS }), wire.RcodeRefused},
		"of any class":           {good(func(q *wire.Msg) { q.Question[0].Qclass = wire.ClassANY }), wire.RcodeRefused},
		"a transfer of the zone": {good(func(q *wire.Msg) { q.Question[0].Qtype = wire.TypeAXFR }), wire.RcodeRefused},
		"later extensions": {good(func(q *wire.Msg) {
			q.SetEdns0(4096, false)
			q.IsEdns0().SetVersion(1)
		}), wire.RcodeBadVers},
	} {
		conn := s.Connect()
		length := []byte{byte(len(test.query) >> 8), byte(len(test.query))}
		if _, err := conn.Write(append(length, test.query...)); err != nil {
			t.Fatal(err)
		}
		answer := make([]byte, 4096)
		n, err := conn.Read(answer[:2])
		if (err != nil) != (test.code == nothing) {
			t.Errorf("%s: %d bytes, %v", name, n, err)
		}
		if err != nil {
			if !strings.HasSuffix(err.Error(), "question") {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		n, err = conn.Read(answer)
		if err != nil {
			t.Fatal(err)
		}
		a := new(wire.Msg)
		if err := a.Unpack(answer[:n]); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if a.Rcode != test.code || !a.Response || a.Id != uint16(plain[0])<<8|uint16(plain[1]) && a.Id != uint16(test.query[0])<<8|uint16(test.query[1]) {
			t.Errorf("%s: code %d, want %d: %v", name, a.Rcode, test.code, a)
		}
		if a.RecursionDesired != (test.query[2]&1 == 1) || a.Opcode != int(test.query[2]>>3&15) {
			t.Errorf("%s: the answer is to another question: %v", name, a)
		}
		if test.code == wire.RcodeFormatError && n > len(test.query) {
			t.Errorf("%s: %d bytes answer %d", name, n, len(test.query))
		}
	}
}

// The resolver of a process works without sockets.
func TestResolver(t *testing.T) {
	s, err := server.New(zone(t, endpoints(3)), server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := s.Resolver()
	addresses, err := r.LookupHost(t.Context(), "web.default.svc.cluster.local.")
	if err != nil || !slices.Equal(addresses, []string{"10.96.0.1"}) {
		t.Errorf("a service: %v, %v", addresses, err)
	}
	_, srv, err := r.LookupSRV(t.Context(), "http", "tcp", "many.default.svc.cluster.local.")
	if err != nil || len(srv) != 3 || srv[0].Port != 80 {
		t.Errorf("a port: %v, %v", srv, err)
	}
	names, err := r.LookupAddr(t.Context(), "10.96.0.1")
	if err != nil || !slices.Equal(names, []string{"web.default.svc.cluster.local."}) {
		t.Errorf("an address: %v, %v", names, err)
	}
	text, err := r.LookupTXT(t.Context(), "dns-version.cluster.local.")
	if err != nil || !slices.Equal(text, []string{"1.1.0"}) {
		t.Errorf("the version: %v, %v", text, err)
	}
	var missing *net.DNSError
	if _, err := r.LookupHost(t.Context(), "no.default.svc.cluster.local."); !errors.As(err, &missing) || !missing.IsNotFound {
		t.Errorf("what is missing: %v", err)
	}
}

// Addresses are looked up in virtual time.
func TestLookupNetIP(t *testing.T) {
	online(t, server.Options{Upstreams: upstreams("192.0.2.1")}, func(t *testing.T, s *server.Server, i *internet) {
		i.answer = func(_, _ string, q *wire.Msg) *wire.Msg {
			a := new(wire.Msg).SetReply(q)
			switch q.Question[0].Name {
			case "slow.com.":
				return nil
			case "both.com.":
				if q.Question[0].Qtype == wire.TypeAAAA {
					a.Answer = []wire.RR{rr("both.com. 5 CNAME x.com."), rr("x.com. 5 AAAA fd00::1")}
				} else {
					a.Answer = []wire.RR{rr("both.com. 5 A 192.0.2.2")}
				}
			}
			return a
		}
		for _, test := range []struct {
			host              string
			want              []string
			missing, temporal bool
		}{
			{"web.default.svc.cluster.local", []string{"10.96.0.1"}, false, false},
			{"web.default.svc.cluster.local.", []string{"10.96.0.1"}, false, false},
			{"both.com", []string{"192.0.2.2", "fd00::1"}, false, false},
			{"web", nil, true, false},
			{"no.default.svc.cluster.local", nil, true, false},
			{"slow.com", nil, false, true},
			{"a..b", nil, false, false},
		} {
			got, err := s.LookupNetIP(t.Context(), test.host)
			var have []string
			for _, at := range got {
				have = append(have, at.String())
			}
			var failed *net.DNSError
			if !slices.Equal(have, test.want) || errors.As(err, &failed) == (test.want != nil) ||
				err != nil && (failed.IsNotFound != test.missing || failed.IsTemporary != test.temporal || failed.Name != test.host) {
				t.Errorf("%s: %v, %#v", test.host, have, err)
			}
		}
	})
}

// A connection in process keeps to the contract of connections.
func TestConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dials := 0
		silent := func(ctx context.Context, _, _ string) (net.Conn, error) {
			dials++
			<-ctx.Done()
			return nil, ctx.Err()
		}
		s, err := server.New(zone(t), server.Options{Upstreams: upstreams("192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"), Dial: silent})
		if err != nil {
			t.Fatal(err)
		}
		packed, err := question("example.com.", wire.TypeA).Pack()
		if err != nil {
			t.Fatal(err)
		}
		packed = append([]byte{0, byte(len(packed))}, packed...)
		c := s.Connect()
		if c.LocalAddr().String() == "" || c.RemoteAddr().Network() == "" {
			t.Error("it has no addresses")
		}
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Error("an answer without a question")
		}
		for _, b := range packed { // byte by byte
			if _, err := c.Write([]byte{b}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := c.Write(make([]byte, 10_000)); err == nil {
			t.Error("it takes questions without limit")
		}
		began := time.Now()
		answer := make([]byte, 100)
		if n, err := c.Read(answer[:3]); err != nil || n != 3 || time.Since(began) != 5*time.Second || dials != 3 { // not 4 times 2
			t.Errorf("%d bytes, %v after %v and asking %d resolvers", n, err, time.Since(began), dials)
		}
		if n, err := c.Read(answer); err != nil || answer[2]&15 != wire.RcodeServerFailure {
			t.Errorf("%x, %v", answer[:n], err)
		}
		_ = c.SetReadDeadline(time.Now().Add(time.Second))
		_ = c.SetWriteDeadline(time.Now())
		if _, err := c.Write(packed); err != nil {
			t.Fatal(err)
		}
		began = time.Now()
		if _, err := c.Read(answer); err != nil || time.Since(began) != time.Second {
			t.Errorf("at the deadline: %v after %v", err, time.Since(began))
		}
		if _, err := c.Read(answer); !errors.Is(err, context.DeadlineExceeded) && !isTimeout(err) {
			t.Errorf("after the deadline: %v", err)
		}
		c = s.Connect()
		if _, err := c.Write(packed); err != nil {
			t.Fatal(err)
		}
		go func() {
			time.Sleep(time.Second)
			_ = c.Close()
		}()
		began = time.Now()
		_, _ = c.Read(answer)
		if time.Since(began) != time.Second {
			t.Errorf("Close ended a Read after %v", time.Since(began))
		}
		if _, err := c.Read(answer); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Read after Close: %v", err)
		}
		if _, err := c.Write(packed); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Write after Close: %v", err)
		}
		_ = c.Close()
		c = s.Connect()
		if _, err := c.Write(make([]byte, 8192)); err != nil {
			t.Errorf("the most that it takes: %v", err)
		}
		if _, err := c.Write(make([]byte, 1)); err == nil {
			t.Error("it takes more than that")
		}
	})
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

func TestLimitsAreNotNegative(t *testing.T) {
	for _, o := range []server.Options{{MaxTTL: -1}, {CacheSize: -1}, {MaxForwards: -1}, {MaxConnections: -1}} {
		if _, err := server.New(zone(t), o); err == nil {
			t.Errorf("%v", o)
		}
	}
}
