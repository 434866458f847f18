package nftables_test

import (
	"encoding/binary"
	"hash/crc32"
	"net"
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/cni/netns"
	"github.com/keelson-dev/keelson/proxy"
)

// initiate is the first packet of an association of SCTP, or, with kind 2, the answer to it. Kernels that have no sockets
// of SCTP still track and translate it.
func initiate(kind byte, from, to uint16, tag uint32) []byte {
	p := binary.BigEndian.AppendUint16(nil, from)
	p = binary.BigEndian.AppendUint16(p, to)
	p = binary.BigEndian.AppendUint32(p, tag)
	p = append(p, 0, 0, 0, 0, kind, 0, 0, 20) // a checksum, the chunk's type and length
	p = binary.BigEndian.AppendUint32(p, 7)   // its tag
	p = binary.BigEndian.AppendUint32(p, 1<<16)
	p = append(p, 0, 1, 0, 1, 0, 0, 0, 1) // a stream in either direction, the first number
	binary.LittleEndian.PutUint32(p[8:], crc32.Checksum(p, crc32.MakeTable(crc32.Castagnoli)))
	return p
}

// raw is a socket for packets of SCTP at the site's IPv4 address.
func raw(t *testing.T, s site) *net.IPConn {
	t.Helper()
	var c *net.IPConn
	err := netns.Do(s.ns, func() (err error) {
		c, err = net.ListenIP("ip4:132", &net.IPAddr{IP: s.v4.AsSlice()})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// receive is the next packet to the port.
func receive(c *net.IPConn, port uint16, within time.Duration) (from netip.Addr, packet []byte) {
	buf := make([]byte, 1500)
	_ = c.SetReadDeadline(time.Now().Add(within))
	for {
		n, sender, err := c.ReadFromIP(buf)
		if err != nil {
			return netip.Addr{}, nil
		}
		if n >= 16 && binary.BigEndian.Uint16(buf[2:]) == port {
			from, _ = netip.AddrFromSlice(sender.IP)
			return from.Unmap(), buf[:n]
		}
	}
}

func TestSCTP(t *testing.T) {
	n := newNetwork(t, 2)
	w := n.writer(t)
	services := one(n, corev1.ProtocolSCTP, 0, 0)
	services[name("a")][0].NodePort = 30001
	services[name("empty")] = []proxy.Port{{Protocol: corev1.ProtocolSCTP, ClusterIP: netip.MustParseAddr("10.96.0.2"), Port: 80}}
	if err := w.Sync(t.Context(), proxy.Tables{Settings: settings(), Services: services}); err != nil {
		t.Fatal(err)
	}
	pod := raw(t, n.site("pod-0"))
	for i, row := range []struct {
		from, to    string
		masqueraded bool
	}{{"pod-1", "10.96.0.1:80", false}, {"outside", "10.96.0.1:80", true}, {"outside", "192.0.2.1:30001", true}} {
		to, from := netip.MustParseAddrPort(row.to), n.site(row.from)
		port := uint16(2000 + i) //nolint:gosec // few
		client := raw(t, from)
		if _, err := client.WriteToIP(initiate(1, port, to.Port(), 0), &net.IPAddr{IP: to.Addr().AsSlice()}); err != nil {
			t.Fatal(err)
		}
		seen, packet := receive(pod, serving, 10*time.Second)
		if packet == nil {
			t.Errorf("%s to %s: nothing arrives", row.from, row.to)
			continue
		}
		if (seen != from.v4) != row.masqueraded {
			t.Errorf("%s to %s: seen as %s", row.from, row.to, seen)
		}
		if _, err := pod.WriteToIP(initiate(2, serving, binary.BigEndian.Uint16(packet), 7), &net.IPAddr{IP: seen.AsSlice()}); err != nil {
			t.Fatal(err)
		}
		if answered, packet := receive(client, port, 10*time.Second); packet == nil || answered != to.Addr() || binary.BigEndian.Uint16(packet) != to.Port() {
			t.Errorf("%s to %s: answered by %s: %x", row.from, row.to, answered, packet)
		}
	}
	// Without endpoints, and at the port of TCP and UDP, nothing gets through.
	client := raw(t, n.site("pod-1"))
	for _, to := range []string{"10.96.0.2:80", "10.96.0.1:81"} {
		at := netip.MustParseAddrPort(to)
		_, _ = client.WriteToIP(initiate(1, 3000, at.Port(), 0), &net.IPAddr{IP: at.Addr().AsSlice()})
	}
	if _, packet := receive(pod, serving, silence); packet != nil {
		t.Errorf("arrived although nothing is behind it: %x", packet)
	}
}
