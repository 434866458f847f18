package server_test

import (
	"context"
	"net"
	"slices"
	"testing"
	"testing/synctest"

	wire "github.com/miekg/dns"

	"github.com/keelson-dev/keelson/dns/server"
)

// TestPassedOn: what of another resolver's answer is passed on.
func TestPassedOn(t *testing.T) {
	online(t, server.Options{Upstreams: upstreams("192.0.2.1")}, func(t *testing.T, s *server.Server, i *internet) {
		i.answer = func(_, _ string, q *wire.Msg) *wire.Msg {
			a := new(wire.Msg).SetReply(q)
			a.RecursionAvailable, a.AuthenticatedData, a.Truncated = true, true, true
			a.Answer = []wire.RR{rr(q.Question[0].Name + " 20 MX 1 mail.com.")}
			a.Extra = []wire.RR{rr("mail.com. 20 A 192.0.2.25")}
			a.SetEdns0(4000, false)
			return a
		}
		a := ask(t, s, question("x.com.", wire.TypeMX))
		if !a.Truncated || !a.RecursionAvailable || !a.AuthenticatedData || len(a.Extra) != 1 || a.Extra[0].String() != "mail.com.\t20\tIN\tA\t192.0.2.25" {
			t.Errorf("%v", a)
		}
		if a := ask(t, s, question("out.default.svc.cluster.local.", wire.TypeA)); !a.Truncated || len(a.Answer) != 2 {
			t.Errorf("a chain: %v", a)
		}
	})
	// Extensions make no difference, unless signatures are wanted.
	online(t, server.Options{}, func(t *testing.T, s *server.Server, i *internet) {
		for _, signed := range []bool{false, true} {
			q := question("x.com.", wire.TypeA)
			q.SetEdns0(1000, signed)
			ask(t, s, question("x.com.", wire.TypeA))
			ask(t, s, q)
		}
		if was := i.was(); len(was) != 2 {
			t.Errorf("asked %v", was)
		}
	})
}

// TestBrokenAnswers: packets that cannot be read are ignored, and a stream that breaks is no answer.
func TestBrokenAnswers(t *testing.T) {
	pack := func(m *wire.Msg) []byte {
		packed, err := m.Pack()
		if err != nil {
			panic(err)
		}
		return packed
	}
	good := func(q *wire.Msg) *wire.Msg {
		a := new(wire.Msg).SetReply(q)
		a.Answer = []wire.RR{rr("x.com. 20 A 192.0.2.80")}
		return a
	}
	for name, test := range map[string]struct {
		write func(q *wire.Msg, network string) [][]byte
		want  string
	}{
		"a part": {func(q *wire.Msg, _ string) [][]byte {
			whole := pack(good(q))
			return [][]byte{whole[:12], whole[:len(whole)-8], whole[:len(whole)-10], whole}
		}, "NOERROR: x.com. 20 IN A 192.0.2.80"},
		"another type": {func(q *wire.Msg, _ string) [][]byte {
			other := good(q)
			other.Question = []wire.Question{{Name: "x.com.", Qtype: wire.TypeAAAA, Qclass: wire.ClassINET}}
			none := good(q)
			none.Question = nil
			return [][]byte{pack(other), pack(none), pack(good(q))}
		}, "NOERROR: x.com. 20 IN A 192.0.2.80"},
		"a stream": {func(q *wire.Msg, network string) [][]byte {
			cut := good(q)
			cut.Truncated = network == "udp"
			if network == "udp" {
				return [][]byte{pack(cut)}
			}
			return [][]byte{{0, 100}, pack(cut)}
		}, "SERVFAIL: "},
		"a hundred others": {func(q *wire.Msg, _ string) [][]byte {
			return append(slices.Repeat([][]byte{pack(q)}, 100), pack(good(q)))
		}, "SERVFAIL: "},
		"ninety-nine others": {func(q *wire.Msg, _ string) [][]byte {
			return append(slices.Repeat([][]byte{pack(q)}, 99), pack(good(q)))
		}, "NOERROR: x.com. 20 IN A 192.0.2.80"},
	} {
		synctest.Test(t, func(t *testing.T) {
			dial := func(_ context.Context, network, _ string) (net.Conn, error) {
				client, resolver := net.Pipe()
				go func() {
					defer func() { _ = resolver.Close() }()
					if q, err := receive(resolver, network); err == nil {
						for _, packet := range test.write(q, network) {
							_, _ = resolver.Write(packet)
						}
					}
				}()
				return client, nil
			}
			s, err := server.New(zone(t), server.Options{Upstreams: upstreams("192.0.2.1"), Dial: dial})
			if err != nil {
				t.Fatal(err)
			}
			if a := ask(t, s, question("x.com.", wire.TypeA)); text(a) != test.want {
				t.Errorf("%s: %s", name, text(a))
			}
		})
	}
}
