package server

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	wire "github.com/miekg/dns"
)

// LookupNetIP returns the addresses of a host in random order, those of IPv4 first. It works whether or not Run runs, and in
// virtual time. The name is complete, with or without a dot at its end. The error is a *net.DNSError.
func (s *Server) LookupNetIP(ctx context.Context, host string) ([]netip.Addr, error) {
	var all []netip.Addr
	for _, kind := range []uint16{wire.TypeA, wire.TypeAAAA} {
		query, err := new(wire.Msg).SetQuestion(wire.Fqdn(host), kind).Pack()
		if err != nil {
			return nil, &net.DNSError{Err: err.Error(), Name: host}
		}
		answer := new(wire.Msg)
		if err := answer.Unpack(s.exchange(ctx, query, stream)); err != nil {
			return nil, &net.DNSError{Err: err.Error(), Name: host}
		}
		if code := answer.Rcode; code != wire.RcodeSuccess && code != wire.RcodeNameError {
			return nil, &net.DNSError{Err: wire.RcodeToString[code], Name: host, IsTemporary: true, IsTimeout: ctx.Err() != nil}
		}
		for _, rr := range answer.Answer {
			var ip net.IP
			switch r := rr.(type) {
			case *wire.A:
				ip = r.A
			case *wire.AAAA:
				ip = r.AAAA
			}
			if at, ok := netip.AddrFromSlice(ip); ok {
				all = append(all, at.Unmap())
			}
		}
	}
	if len(all) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return all, nil
}

// Resolver returns a resolver that asks this server by calls, without a socket, whether or not Run runs. Names are to
// have a dot at their end: otherwise the resolver also tries the search list of the machine's resolv.conf, as it looks
// into its hosts file first. All resolvers share what they read from there, by a channel: in a bubble of
// testing/synctest use one only if it was used before outside of it, or else LookupNetIP.
func (s *Server) Resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) { return s.Connect(), nil }}
}

// Connect returns a connection to the server that behaves as one over TCP: questions and answers are preceded by their
// length. It needs no goroutine: a question is answered when its answer is read.
func (s *Server) Connect() net.Conn { return &connection{server: s} }

// connection is the client's end of a connection in process.
type connection struct {
	server *Server

	mu       sync.Mutex // guards the three below
	in, out  bytes.Buffer
	deadline time.Time

	over atomic.Bool // Close was called
	// ending ends the question under way.
	ending atomic.Pointer[context.CancelFunc]
}

// Write takes (parts of) questions.
func (c *connection) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over.Load() {
		return 0, net.ErrClosed
	}
	if c.in.Len()+len(p) > 2*maxPacket {
		return 0, errors.New("questions are not followed by reading their answers")
	}
	return c.in.Write(p)
}

// Read answers the next question, and returns its answer, in parts if it has to.
func (c *connection) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.over.Load():
		return 0, net.ErrClosed
	case !c.deadline.IsZero() && !time.Now().Before(c.deadline):
		return 0, os.ErrDeadlineExceeded
	}
	if c.out.Len() == 0 {
		if err := c.next(); err != nil {
			return 0, err
		}
	}
	return c.out.Read(p)
}

// next answers the next question.
func (c *connection) next() error {
	have := c.in.Bytes()
	if len(have) < 2 || len(have) < 2+int(binary.BigEndian.Uint16(have)) {
		return errors.New("there is no question to answer")
	}
	query, err := readFramed(&c.in)
	if err != nil {
		return err
	}
	ctx, cancel := c.context()
	defer cancel()
	answer := c.server.exchange(ctx, query, stream)
	if len(answer) == 0 {
		return errors.New("that is no question")
	}
	c.out.Write(framed(answer))
	return nil
}

// context ends when the connection does, or at its deadline.
func (c *connection) context() (context.Context, context.CancelFunc) {
	deadline := c.deadline
	if deadline.IsZero() {
		deadline = time.Now().Add(2 * patient) // later than any answer
	}
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	c.ending.Store(&cancel)
	if c.over.Load() {
		cancel()
	}
	return ctx, cancel
}

// Close ends the connection, and a Read that waits.
func (c *connection) Close() error {
	c.over.Store(true)
	if cancel := c.ending.Load(); cancel != nil {
		(*cancel)()
	}
	return nil
}

// LocalAddr implements net.Conn.
func (c *connection) LocalAddr() net.Addr { return inProcess{} }

// RemoteAddr implements net.Conn.
func (c *connection) RemoteAddr() net.Addr { return inProcess{} }

// SetDeadline limits reads.
func (c *connection) SetDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = t
	return nil
}

// SetReadDeadline limits reads.
func (c *connection) SetReadDeadline(t time.Time) error { return c.SetDeadline(t) }

// SetWriteDeadline does nothing: writes do not block.
func (c *connection) SetWriteDeadline(time.Time) error { return nil }

// inProcess is the address of connections in process.
type inProcess struct{}

func (inProcess) Network() string { return "inprocess" }
func (inProcess) String() string  { return "inprocess" }
