package server_test

import (
	"context"
	"errors"
	"io"
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

// socket is one of packets that hands out what read says to the first who reads; others wait until it is closed.
type socket struct {
	net.PacketConn // nil
	read           func() ([]byte, error)
	written        func([]byte)

	mu     sync.Mutex
	first  *byte // of the reader's buffer
	closed chan struct{}
	close  sync.Once
}

func (s *socket) ReadFrom(p []byte) (int, net.Addr, error) {
	s.mu.Lock()
	if s.first == nil {
		s.first = &p[0]
	}
	mine := s.first == &p[0]
	s.mu.Unlock()
	if mine {
		packet, err := s.read()
		if packet != nil || err != nil {
			return copy(p, packet), &net.UDPAddr{}, err
		}
	}
	<-s.closed
	return 0, nil, net.ErrClosed
}

func (s *socket) WriteTo(p []byte, _ net.Addr) (int, error) {
	s.written(p)
	return len(p), nil
}

func (s *socket) SetReadDeadline(time.Time) error { s.close.Do(func() { close(s.closed) }); return nil }
func (s *socket) Close() error                    { return nil }
func (s *socket) LocalAddr() net.Addr             { return &net.UDPAddr{} }

// TestFailingSocket: a socket may fail a hundred times in a row.
func TestFailingSocket(t *testing.T) {
	packed, err := question("web.default.svc.cluster.local.", wire.TypeA).Pack()
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	for _, test := range []struct {
		fails  []int // before each packet, and at the end
		answer int
		want   error
	}{
		{[]int{100, 100, 0}, 2, nil},
		{[]int{100, 101}, 1, broken},
	} {
		synctest.Test(t, func(t *testing.T) {
			fails, answers := slices.Clone(test.fails), 0
			s := &socket{closed: make(chan struct{}), written: func([]byte) { answers++ }, read: func() ([]byte, error) {
				switch {
				case fails[0] > 0:
					fails[0]--
					return nil, broken
				case len(fails) > 1:
					fails = fails[1:]
					return packed, nil
				}
				return nil, nil
			}}
			server, err := server.New(zone(t), server.Options{Packets: []net.PacketConn{s}})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := server.Run(ctx); !errors.Is(err, test.want) || answers != test.answer {
				t.Errorf("%v: %v after %d answers", test.fails, err, answers)
			}
		})
	}
}

// TestRun: Run ends with the context, closes the sockets, and tells if one of them was closed by somebody else.
func TestRun(t *testing.T) {
	for name, test := range map[string]struct {
		close func(net.PacketConn, net.Listener)
		want  error
	}{
		"the end":   {nil, nil},
		"packets":   {func(p net.PacketConn, _ net.Listener) { _ = p.Close() }, net.ErrClosed},
		"listening": {func(_ net.PacketConn, l net.Listener) { _ = l.Close() }, net.ErrClosed},
	} {
		packets, err := new(net.ListenConfig).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s, err := server.New(zone(t), server.Options{Packets: []net.PacketConn{packets}, Listeners: []net.Listener{listener}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- s.Run(ctx) }()
		exchange(t, "udp", packets.LocalAddr().String(), question("web.default.svc.cluster.local.", wire.TypeA))
		exchange(t, "tcp", listener.Addr().String(), question("web.default.svc.cluster.local.", wire.TypeA))
		if test.close == nil {
			cancel()
		} else {
			test.close(packets, listener)
		}
		if err := <-ran; !errors.Is(err, test.want) {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
		if _, err := packets.WriteTo([]byte("x"), packets.LocalAddr()); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s: the packets' socket is open: %v", name, err)
		}
		if _, err := listener.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s: the listener is open: %v", name, err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		s, err := server.New(zone(t), server.Options{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if err := s.Run(ctx); err != nil || time.Since(began) != time.Second {
			t.Errorf("without sockets: %v after %v", err, time.Since(began))
		}
	})
}

// TestPacketsAreForwarded: what others answer takes no other packet's time, and what is no question gets no answer.
func TestPacketsAreForwarded(t *testing.T) {
	asked, answer := make(chan struct{}), make(chan struct{})
	i := &internet{answer: func(_, _ string, q *wire.Msg) *wire.Msg {
		a := new(wire.Msg).SetReply(q)
		a.Answer = []wire.RR{rr(q.Question[0].Name + " 20 A 192.0.2.80")}
		if q.Question[0].Name == "slow.com." {
			asked <- struct{}{}
			<-answer
		}
		return a
	}}
	_, at := serve(t, zone(t), server.Options{Upstreams: upstreams("192.0.2.1"), Dial: i.dial, MaxForwards: 2})
	done := make(chan string, 2)
	for range 2 {
		go func() {
			c := &wire.Client{Net: "udp", Timeout: 10 * time.Second}
			if a, _, err := c.Exchange(question("slow.com.", wire.TypeA), at); err != nil {
				done <- err.Error()
			} else {
				done <- text(a)
			}
		}()
		select {
		case <-asked:
		case got := <-done:
			t.Fatalf("answered without asking: %s", got)
		}
	}
	if a := exchange(t, "udp", at, question("y.com.", wire.TypeA)); a.Rcode != wire.RcodeRefused {
		t.Errorf("one too many: %v", a)
	}
	if a := exchange(t, "udp", at, question("web.default.svc.cluster.local.", wire.TypeA)); a.Rcode != 0 {
		t.Errorf("a service: %v", a)
	}
	close(answer)
	for range 2 {
		if got := <-done; got != "NOERROR: slow.com. 20 IN A 192.0.2.80" {
			t.Error(got)
		}
	}
	conn, err := net.Dial("udp", at) //nolint:noctx // it sends nothing
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	response := question("web.default.svc.cluster.local.", wire.TypeA)
	response.Response = true
	good := question("web.default.svc.cluster.local.", wire.TypeA)
	for _, q := range []*wire.Msg{response, good} {
		packed, err := q.Pack()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write(packed); err != nil {
			t.Fatal(err)
		}
	}
	buf := make([]byte, 512)
	n, err := conn.Read(buf)
	if err != nil || n < 2 || uint16(buf[0])<<8|uint16(buf[1]) != good.Id {
		t.Errorf("%x, %v", buf[:n], err)
	}
}

// pipes is a listener that accepts the given connections, and then fails, or waits until it is closed.
type pipes struct {
	net.Listener // nil
	conns        chan net.Conn
	fails        error
	closed       chan struct{}
	close        sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	default:
	}
	if p.fails == nil {
		<-p.closed
		return nil, net.ErrClosed
	}
	return nil, p.fails
}

func (p *pipes) Close() error { p.close.Do(func() { close(p.closed) }); return nil }

// TestIdle: a connection on which nothing comes ends after ten seconds, and so does one whose answer nobody reads.
func TestIdle(t *testing.T) {
	packed, err := question("web.default.svc.cluster.local.", wire.TypeA).Pack()
	if err != nil {
		t.Fatal(err)
	}
	packed = append([]byte{0, byte(len(packed))}, packed...)
	for name, test := range map[string]struct {
		writes [][]byte
		want   time.Duration
	}{
		"nothing":       {nil, 10 * time.Second},
		"no answer":     {[][]byte{packed}, 10 * time.Second},
		"half of one":   {[][]byte{packed[:20]}, 10 * time.Second},
		"too long":      {[][]byte{{0x10, 1}}, 0},
		"not questions": {[][]byte{{0, 1, 'x'}}, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			client, conn := net.Pipe()
			l := &pipes{conns: make(chan net.Conn, 1), closed: make(chan struct{})}
			ended := make(chan struct{})
			l.conns <- closing{conn, sync.OnceFunc(func() { close(ended) })}
			s, err := server.New(zone(t), server.Options{Listeners: []net.Listener{l}})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			ran := make(chan error, 1)
			go func() { ran <- s.Run(ctx) }()
			began := time.Now()
			for _, w := range test.writes {
				if _, err := client.Write(w); err != nil {
					t.Fatal(err)
				}
			}
			<-ended
			if took := time.Since(began); took != test.want {
				t.Errorf("%s: it ended after %v", name, took)
			}
			cancel()
			if err := <-ran; err != nil {
				t.Error(err)
			}
		})
	}
	broken := errors.New("broken")
	l := &pipes{fails: broken, closed: make(chan struct{})}
	s, err := server.New(zone(t), server.Options{Listeners: []net.Listener{l}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(t.Context()); !errors.Is(err, broken) {
		t.Error(err)
	}
	select {
	case <-l.closed:
	default:
		t.Error("a listener that fails stays open")
	}
}

// closing tells that it is closed.
type closing struct {
	net.Conn
	ended func()
}

func (c closing) Close() error { c.ended(); return c.Conn.Close() }

// TestHalfAQuestion: a client that ends amidst its question gets no answer.
func TestHalfAQuestion(t *testing.T) {
	_, at := serve(t, zone(t), server.Options{})
	conn, err := net.Dial("tcp", at) //nolint:noctx // it is on this machine
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	packed, err := question("web.default.svc.cluster.local.", wire.TypeA).Pack()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(append([]byte{0, byte(len(packed) + 1)}, packed...)); err != nil {
		t.Fatal(err)
	}
	_ = conn.(*net.TCPConn).CloseWrite()
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	if n, err := conn.Read(make([]byte, 100)); !errors.Is(err, io.EOF) {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// TestConnectionsAreBounded: who comes when there are enough waits until one of the others goes.
func TestConnectionsAreBounded(t *testing.T) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.New(zone(t), server.Options{Listeners: []net.Listener{listener}, MaxConnections: 1})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ran := make(chan error, 1)
	go func() { ran <- s.Run(ctx) }()
	connect := func() *wire.Conn {
		conn, err := net.Dial("tcp", listener.Addr().String()) //nolint:noctx // it is on this machine
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		c := &wire.Conn{Conn: conn}
		if err := c.WriteMsg(question("web.default.svc.cluster.local.", wire.TypeA)); err != nil {
			t.Fatal(err)
		}
		return c
	}
	first := connect()
	if _, err := first.ReadMsg(); err != nil {
		t.Fatal(err)
	}
	second := connect()
	_ = second.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if _, err := second.ReadMsg(); !isTimeout(err) {
		t.Errorf("a second connection is served: %v", err)
	}
	// A question that is too long ends its connection, at once.
	if _, err := first.Conn.Write([]byte{0x10, 1}); err != nil {
		t.Fatal(err)
	}
	_ = first.SetReadDeadline(time.Now().Add(5 * time.Second))
	if _, err := first.Conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("after a question that is too long: %v", err)
	}
	_ = second.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := second.ReadMsg(); err != nil {
		t.Errorf("the second connection is not served: %v", err)
	}
	connect() // and waits
	cancel()
	if err := <-ran; err != nil {
		t.Error(err)
	}
}

// TestLongQuestions: 4096 bytes are read, and no more.
func TestLongQuestions(t *testing.T) {
	s, err := server.New(zone(t), server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for size, want := range map[int]string{4096: "", 4097: "the question is too long"} {
		q := question("web.default.svc.cluster.local.", wire.TypeA)
		q.SetEdns0(1232, false)
		q.IsEdns0().Option = []wire.EDNS0{&wire.EDNS0_PADDING{}}
		q.IsEdns0().Option[0].(*wire.EDNS0_PADDING).Padding = make([]byte, size-q.Len())
		packed, err := q.Pack()
		if err != nil || len(packed) != size {
			t.Fatalf("%d bytes, %v", len(packed), err)
		}
		conn := s.Connect()
		framed := append([]byte{byte(size >> 8), byte(size)}, packed...)
		read := func() error {
			_, err := conn.Read(make([]byte, 512))
			return err
		}
		// As long as a part is missing, nothing happens.
		if _, err := conn.Write(framed[:len(framed)-1]); err != nil {
			t.Fatal(err)
		}
		if err := read(); err == nil || err.Error() != "there is no question to answer" {
			t.Errorf("a part: %v", err)
		}
		if _, err := conn.Write(framed[len(framed)-1:]); err != nil {
			t.Fatal(err)
		}
		if err := read(); want == "" && err != nil || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

// TestRoom: ended answers make room before others do, and there is room for as many as was said.
func TestRoom(t *testing.T) {
	ttl := " 1 A 192.0.2.80"
	answer := func(_, _ string, q *wire.Msg) *wire.Msg {
		a := new(wire.Msg).SetReply(q)
		a.Answer = []wire.RR{rr(q.Question[0].Name + ttl)}
		return a
	}
	online(t, server.Options{CacheSize: 8}, func(t *testing.T, s *server.Server, i *internet) {
		i.answer = answer
		ask8 := func(prefix string) {
			for n := range 8 {
				ask(t, s, question(prefix+string(rune('a'+n))+".com.", wire.TypeA))
			}
		}
		ask8("old")
		time.Sleep(2 * time.Second)
		ttl = " 30 A 192.0.2.80"
		ask8("new")
		i.was()
		if ask8("new"); len(i.was()) > 0 {
			t.Error("an answer that was valid made room for another")
		}
	})
	online(t, server.Options{CacheSize: 1}, func(t *testing.T, s *server.Server, i *internet) {
		i.answer = answer
		for _, name := range []string{"x.com.", "y.com.", "y.com.", "x.com."} {
			ask(t, s, question(name, wire.TypeA))
		}
		if was := i.was(); len(was) != 3 {
			t.Errorf("asked %v", was)
		}
	})
	long := func(size int) *wire.TXT {
		all := &wire.TXT{Hdr: wire.RR_Header{Name: "x.com.", Rrtype: wire.TypeTXT, Class: wire.ClassINET, Ttl: 30}}
		for ; size > 0; size -= 256 {
			all.Txt = append(all.Txt, strings.Repeat("x", min(size, 256)-1))
		}
		return all
	}
	for size, known := range map[int]bool{2048: true, 2049: false} {
		online(t, server.Options{}, func(t *testing.T, s *server.Server, i *internet) {
			i.answer = func(_, _ string, q *wire.Msg) *wire.Msg {
				a := new(wire.Msg).SetReply(q)
				a.Answer = []wire.RR{long(0)}
				a.Answer = []wire.RR{long(size - a.Len())}
				if a.Len() != size {
					panic(a.Len())
				}
				return a
			}
			for range 2 {
				ask(t, s, question("x.com.", wire.TypeTXT))
			}
			if was := i.was(); (len(was) == 1) != known {
				t.Errorf("an answer of %d bytes: asked %v", size, was)
			}
		})
	}
}

// TestLookupInTime: whether a lookup failed because nobody waits any more is told.
func TestLookupInTime(t *testing.T) {
	online(t, server.Options{}, func(t *testing.T, s *server.Server, i *internet) {
		i.answer = func(string, string, *wire.Msg) *wire.Msg { return nil }
		for patience, want := range map[time.Duration]bool{time.Second: true, time.Minute: false} {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			var failed *net.DNSError
			if _, err := s.LookupNetIP(ctx, "x.com"); !errors.As(err, &failed) || failed.IsTimeout != want {
				t.Errorf("%v: %#v", patience, err)
			}
			cancel()
		}
	})
}

// TestAddresses: the server's own sockets are recognized by address and port.
func TestAddresses(t *testing.T) {
	own := &socket{}
	at := netip.MustParseAddrPort("192.0.2.1:53")
	for packets, want := range map[net.PacketConn]int{
		named{own, net.UDPAddrFromAddrPort(at)}:                                              wire.RcodeRefused,
		named{own, net.UDPAddrFromAddrPort(netip.MustParseAddrPort("192.0.2.1:54"))}:         wire.RcodeServerFailure,
		named{own, net.UDPAddrFromAddrPort(netip.MustParseAddrPort("192.0.2.2:53"))}:         wire.RcodeServerFailure,
		named{own, net.TCPAddrFromAddrPort(at)}:                                              wire.RcodeServerFailure,
		named{own, net.UDPAddrFromAddrPort(netip.MustParseAddrPort("[::ffff:c000:201]:53"))}: wire.RcodeRefused,
	} {
		s, err := server.New(zone(t), server.Options{
			Packets: []net.PacketConn{packets}, Upstreams: []netip.AddrPort{at},
			Dial: func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no") },
		})
		if err != nil {
			t.Fatal(err)
		}
		if a := ask(t, s, question("x.com.", wire.TypeA)); a.Rcode != want {
			t.Errorf("%v: %v", packets.LocalAddr(), a)
		}
	}
}

type named struct {
	*socket
	at net.Addr
}

func (n named) LocalAddr() net.Addr { return n.at }
