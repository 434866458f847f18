package nftables_test

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"net/netip"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/cni/netns"
	"github.com/keelson-dev/keelson/networkpolicy"
)

const (
	// silence is how long nothing arrives that should not.
	silence = 60 * time.Millisecond
	// patience is far more than what should arrive takes.
	patience = 20 * time.Second
	// again is how often datagrams are sent again.
	again = 300 * time.Millisecond
)

// attempt is a packet on its way.
type attempt struct {
	packet networkpolicy.Packet
	fd     int
	passed bool
}

// pass sends packets, of which so many should be answered, and says which are.
func (n *network) pass(t *testing.T, packets []networkpolicy.Packet, want int) []bool {
	t.Helper()
	if n.port++; n.port == 30000 { // connections do not live as long
		n.port = 20001
	}
	n.sctp.begin(uint16(n.port)) //nolint:gosec // below 30000
	all := make([]attempt, len(packets))
	bySite := map[string][]*attempt{}
	for i, p := range packets {
		all[i].packet = p
		ns := n.at(p.From).ns
		bySite[ns] = append(bySite[ns], &all[i])
	}
	defer func() {
		for i := range all {
			if all[i].fd > 0 {
				_ = unix.Close(all[i].fd)
			}
		}
	}()
	for ns, some := range bySite {
		err := netns.Do(ns, func() error {
			for _, a := range some {
				if err := a.open(n.port); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	n.wait(t, all, want)
	passed := make([]bool, len(all))
	for i := range all {
		passed[i] = all[i].passed
	}
	return passed
}

// wait polls until as many are answered as should be, and then until nothing more comes.
func (n *network) wait(t *testing.T, all []attempt, want int) {
	t.Helper()
	began, sent := time.Now(), time.Now()
	var complete time.Time
	for {
		count := 0
		for i := range all {
			if n.look(&all[i]) {
				count++
			}
		}
		switch now := time.Now(); {
		case count >= want && complete.IsZero():
			complete = now
		case count >= want && now.Sub(complete) > silence, now.Sub(began) > patience:
			return
		case count < want && now.Sub(sent) > again:
			sent = now
			for i := range all {
				all[i].send()
			}
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// open makes a socket that comes from the port, and sends.
func (a *attempt) open(port int) error {
	family, kind, protocol := unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_TCP
	if a.packet.From.Is6() {
		family = unix.AF_INET6
	}
	switch a.packet.Protocol {
	case corev1.ProtocolUDP:
		kind, protocol = unix.SOCK_DGRAM, unix.IPPROTO_UDP
	case corev1.ProtocolSCTP:
		kind, protocol, port = unix.SOCK_RAW, unix.IPPROTO_SCTP, 0
	}
	fd, err := unix.Socket(family, kind|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return err
	}
	a.fd = fd
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return err
	}
	if kind == unix.SOCK_STREAM { // closing resets the connection
		if err := unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}); err != nil {
			return err
		}
	}
	if err := unix.Bind(fd, sockaddr(netip.AddrPortFrom(a.packet.From, uint16(port)))); err != nil { //nolint:gosec // below 30000
		return err
	}
	to := a.packet.To
	if kind == unix.SOCK_RAW {
		to = netip.AddrPortFrom(to.Addr(), 0)
	}
	if err := unix.Connect(fd, sockaddr(to)); err != nil && !errors.Is(err, unix.EINPROGRESS) {
		return err
	}
	a.send()
	return nil
}

// send sends a datagram, if it is one.
func (a *attempt) send() {
	if a.packet.Protocol == corev1.ProtocolUDP && !a.passed {
		_, _ = unix.Write(a.fd, []byte("?"))
	}
}

func sockaddr(a netip.AddrPort) unix.Sockaddr {
	if a.Addr().Is6() {
		return &unix.SockaddrInet6{Addr: a.Addr().As16(), Port: int(a.Port())}
	}
	return &unix.SockaddrInet4{Addr: a.Addr().As4(), Port: int(a.Port())}
}

// look reports whether the packet was answered.
func (n *network) look(a *attempt) bool {
	if a.passed {
		return true
	}
	switch a.packet.Protocol {
	case corev1.ProtocolUDP:
		size, err := unix.Read(a.fd, make([]byte, 8))
		a.passed = err == nil && size == 1
	case corev1.ProtocolTCP:
		_, err := unix.Getpeername(a.fd)
		a.passed = err == nil
	case corev1.ProtocolSCTP:
		a.passed = n.sctp.has(a.packet)
		if !a.passed {
			_, _ = unix.Write(a.fd, initiation(n.sctp.port, a.packet.To.Port()))
		}
	}
	return a.passed
}

// initiation is a packet of SCTP that begins a connection.
func initiation(from, to uint16) []byte {
	b := make([]byte, 12+20)
	binary.BigEndian.PutUint16(b, from)
	binary.BigEndian.PutUint16(b[2:], to)
	b[12] = 1 // INIT
	binary.BigEndian.PutUint16(b[14:], 20)
	binary.BigEndian.PutUint32(b[16:], 0x1234) // its tag
	binary.BigEndian.PutUint32(b[20:], 1<<16)  // window
	binary.BigEndian.PutUint16(b[24:], 1)      // streams out
	binary.BigEndian.PutUint16(b[26:], 1)      // and in
	binary.LittleEndian.PutUint32(b[8:], crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
	return b
}

// arrivals are the packets of SCTP that have arrived. The kernel need not know the protocol.
type arrivals struct {
	mu   sync.Mutex
	port uint16
	seen map[networkpolicy.Packet]bool
}

func newArrivals() *arrivals { return &arrivals{} }

func (a *arrivals) begin(port uint16) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.port, a.seen = port, map[networkpolicy.Packet]bool{}
}

func (a *arrivals) has(p networkpolicy.Packet) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.seen[p]
}

func (a *arrivals) came(from, to netip.Addr, b []byte) {
	if len(b) < 13 || b[12] != 1 {
		return // not the beginning
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if binary.BigEndian.Uint16(b) == a.port {
		a.seen[networkpolicy.Packet{From: from, To: netip.AddrPortFrom(to, binary.BigEndian.Uint16(b[2:])), Protocol: corev1.ProtocolSCTP}] = true
	}
}

// listenSCTP notes what arrives at a site.
func (n *network) listenSCTP(s site) {
	for _, local := range []netip.Addr{s.v4, s.v6} {
		family := unix.AF_INET
		if local.Is6() {
			family = unix.AF_INET6
		}
		fd := -1
		err := netns.Do(s.ns, func() (err error) {
			fd, err = unix.Socket(family, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_SCTP)
			return err
		})
		if err == nil {
			err = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 100000})
		}
		if err != nil {
			n.t.Fatal(err)
		}
		end, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			n.readSCTP(fd, local, end)
		}()
		n.t.Cleanup(func() { close(end); <-done; _ = unix.Close(fd) })
	}
}

func (n *network) readSCTP(fd int, local netip.Addr, end chan struct{}) {
	buf := make([]byte, 2048)
	for {
		select {
		case <-end:
			return
		default:
		}
		size, from, err := unix.Recvfrom(fd, buf, 0)
		if err != nil {
			continue
		}
		switch from := from.(type) {
		case *unix.SockaddrInet4:
			if size > 20 {
				n.sctp.came(netip.AddrFrom4(from.Addr), local, buf[20:size])
			}
		case *unix.SockaddrInet6:
			n.sctp.came(netip.AddrFrom16(from.Addr), local, buf[:size])
		}
	}
}
