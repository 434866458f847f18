package server_test

import (
	"context"
	"errors"
	"net"
	"testing"

	wire "github.com/miekg/dns"

	"github.com/keelson-dev/keelson/dns/server"
)

// FuzzQuestion sends any bytes as a question: the server does not panic, and what it answers is an answer.
func FuzzQuestion(f *testing.F) {
	for _, q := range []*wire.Msg{
		question("web.default.svc.cluster.local.", wire.TypeA), question("many.default.svc.cluster.local.", wire.TypeSRV),
		question("1.0.96.10.in-addr.arpa.", wire.TypePTR), question(`\000.\.\\.default.svc.cluster.local.`, wire.TypeANY),
		question("example.com.", wire.TypeTXT), question(".", wire.TypeNS), question("cluster.local.", wire.TypeAXFR),
		question("web.default.svc.cluster.local.", wire.TypeAAAA).SetEdns0(4096, true),
	} {
		packed, err := q.Pack()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(packed)
	}
	offline := func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("offline") }
	s, err := server.New(zone(f, endpoints(100)), server.Options{Upstreams: upstreams("192.0.2.1"), Dial: offline})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, query []byte) {
		if len(query) > 4096 {
			return
		}
		conn := &wire.Conn{Conn: s.Connect()}
		if _, err := conn.Write(query); err != nil {
			t.Fatal(err)
		}
		packed := make([]byte, wire.MaxMsgSize)
		n, err := conn.Read(packed)
		if err != nil {
			return // it was no question
		}
		a := new(wire.Msg)
		if err := a.Unpack(packed[:n]); err != nil {
			t.Fatalf("%v: %x", err, packed[:n])
		}
		if !a.Response || packed[0] != query[0] || packed[1] != query[1] {
			t.Errorf("%v", a)
		}
	})
}

// FuzzAnswer has any bytes as the answer of another resolver.
func FuzzAnswer(f *testing.F) {
	good := new(wire.Msg).SetReply(question("example.com.", wire.TypeA))
	good.Answer = []wire.RR{rr("example.com. 5 A 192.0.2.1"), rr("example.com. 5 TXT x"), rr("example.com. 5 SOA a. b. 1 2 3 4 5")}
	packed, err := good.Pack()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(packed)
	f.Add([]byte{})
	z := zone(f)
	f.Fuzz(func(t *testing.T, answer []byte) {
		dial := func(context.Context, string, string) (net.Conn, error) {
			client, resolver := net.Pipe()
			go func() {
				buf := make([]byte, 4096)
				n, err := resolver.Read(buf)
				if err == nil && n > 2 && len(answer) > 2 {
					copy(answer, buf[:2]) // the number of the question
				}
				_, _ = resolver.Write(answer)
				_ = resolver.Close()
			}()
			return client, nil
		}
		s, err := server.New(z, server.Options{Upstreams: upstreams("192.0.2.1"), Dial: dial})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second may be remembered
			ask(t, s, question("example.com.", wire.TypeA))
			ask(t, s, question("out.default.svc.cluster.local.", wire.TypeA))
		}
	})
}
