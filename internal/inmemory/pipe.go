package inmemory

import (
	"errors"
	"net"
	"time"
)

// Conn is one end of a connection in memory. It has deadlines, and unlike net.Pipe's ends each direction can be closed alone.
type Conn struct{ in, out net.Conn }

// Pipe returns the two ends of a connection. Nothing is buffered: a write waits until it was read.
func Pipe() (a, b *Conn) {
	aIn, bOut := net.Pipe()
	bIn, aOut := net.Pipe()
	return &Conn{aIn, aOut}, &Conn{bIn, bOut}
}

// Read implements net.Conn.
func (c *Conn) Read(p []byte) (int, error) { return c.in.Read(p) }

// Write implements net.Conn.
func (c *Conn) Write(p []byte) (int, error) { return c.out.Write(p) }

// CloseWrite ends what the other end reads.
func (c *Conn) CloseWrite() error {
	_ = c.out.Close() // it does not fail
	return nil
}

// Close closes both directions.
func (c *Conn) Close() error {
	_, _ = c.out.Close(), c.in.Close() // they do not fail
	return nil
}

// SetDeadline implements net.Conn.
func (c *Conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline implements net.Conn.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.in.SetReadDeadline(t) }

// SetWriteDeadline implements net.Conn.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.out.SetWriteDeadline(t) }

// LocalAddr is "in-process".
func (c *Conn) LocalAddr() net.Addr { return address{} }

// RemoteAddr is "in-process".
func (c *Conn) RemoteAddr() net.Addr { return address{} }

type address struct{}

func (address) Network() string { return "memory" }

func (address) String() string { return "in-process" }
