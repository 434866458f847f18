package server_test

import (
	"net"
	"testing"

	wire "github.com/miekg/dns"

	"github.com/keelson-dev/keelson/dns/server"
)

// BenchmarkPackets asks over UDP, with as many questions under way as there are CPUs.
func BenchmarkPackets(b *testing.B) {
	_, at := serve(b, zone(b), server.Options{})
	packed, err := question("web.default.svc.cluster.local.", wire.TypeA).Pack()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		conn, err := net.Dial("udp", at) //nolint:noctx // to the loopback interface
		if err != nil {
			b.Error(err)
			return
		}
		defer func() { _ = conn.Close() }()
		buf := make([]byte, 4096)
		for pb.Next() {
			if _, err := conn.Write(packed); err != nil {
				b.Error(err)
				return
			}
			if _, err := conn.Read(buf); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// BenchmarkInProcess asks by calls.
func BenchmarkInProcess(b *testing.B) {
	s, err := server.New(zone(b), server.Options{})
	if err != nil {
		b.Fatal(err)
	}
	packed, err := question("web.default.svc.cluster.local.", wire.TypeA).Pack()
	if err != nil {
		b.Fatal(err)
	}
	packed = append([]byte{0, byte(len(packed))}, packed...)
	conn, buf := s.Connect(), make([]byte, 4096)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := conn.Write(packed); err != nil {
			b.Fatal(err)
		}
		if _, err := conn.Read(buf); err != nil {
			b.Fatal(err)
		}
	}
}
