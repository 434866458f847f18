package nfnetlink

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Subsystems.
const (
	Conntrack = unix.NFNL_SUBSYS_CTNETLINK
	Tables    = unix.NFNL_SUBSYS_NFTABLES
)

const (
	batchBegin = 0x10
	batchEnd   = 0x11
)

// Conn is a connection to the kernel.
type Conn struct {
	fd   int
	room int // of the send buffer
	buf  []byte
}

// Open connects to the kernel of the calling thread's network namespace.
func Open() (*Conn, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, errors.Join(os.NewSyscallError("bind", err), unix.Close(fd))
	}
	// Errors and dumps arrive faster than they are read.
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 4<<20)
	return &Conn{fd: fd, buf: make([]byte, 64<<10)}, nil
}

// Close ends the connection.
func (c *Conn) Close() error { return unix.Close(c.fd) }

// Error is the kernel's refusal of one message.
type Error struct {
	Err error // the syscall.Errno
	// Index is which message of the transaction it was, counted from 1.
	Index int
}

func (e *Error) Error() string { return fmt.Sprintf("message %d: %v", e.Index, e.Err) }

func (e *Error) Unwrap() error { return e.Err }

// Transaction sends messages of nftables, which take effect all or none. An error from the kernel is an *Error.
// If generation is not 0, the transaction fails with ERESTART unless that is the present generation of the tables.
func (c *Conn) Transaction(generation uint32, fill func(*Message)) error {
	var m Message
	m.Add(batchBegin, unix.NLM_F_REQUEST, unix.AF_UNSPEC, Tables)
	if generation != 0 {
		m.Uint32(unix.NFNL_BATCH_GENID, generation)
	}
	empty := m.seq
	fill(&m)
	if m.seq == empty {
		return nil
	}
	m.flag(unix.NLM_F_ACK)
	m.Add(batchEnd, unix.NLM_F_REQUEST, unix.AF_UNSPEC, Tables)
	m.finish()
	if err := c.send(m.buf); err != nil {
		return err
	}
	// The kernel has dealt with everything by the time send returns.
	return c.outcome(m.seq - 1)
}

// send sends, with a send buffer that is large enough: a transaction is one datagram.
func (c *Conn) send(buf []byte) error {
	if need := len(buf) + 4096; need > c.room {
		if err := unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, need); err != nil {
			return os.NewSyscallError("setsockopt", err)
		}
		c.room = need
	}
	return os.NewSyscallError("sendto", unix.Sendto(c.fd, buf, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}))
}

// outcome reads what has come of a transaction: its first error, or the acknowledgment of the last message.
func (c *Conn) outcome(last uint32) (err error) {
	acknowledged := false
	for {
		n, _, e := unix.Recvfrom(c.fd, c.buf, unix.MSG_DONTWAIT)
		switch {
		case errors.Is(e, unix.EINTR):
			continue
		case errors.Is(e, unix.EAGAIN):
			if err == nil && !acknowledged {
				err = errors.New("the kernel did not answer")
			}
			return err
		case e != nil:
			return errors.Join(err, os.NewSyscallError("recvfrom", e))
		}
		for r := range replies(c.buf[:n]) {
			if r.kind != unix.NLMSG_ERROR {
				continue
			}
			switch failed := r.failure(); {
			case failed == nil:
				acknowledged = acknowledged || r.seq == last
			case err == nil:
				err = &Error{failed, int(r.seq) - 1}
			}
		}
	}
}

// reply is one of the kernel's messages.
type reply struct {
	kind, flags uint16
	seq         uint32
	body        []byte
}

// replies are those in a datagram.
func replies(buf []byte) iter.Seq[reply] {
	return func(yield func(reply) bool) {
		for len(buf) >= 16 {
			n := int(binary.NativeEndian.Uint32(buf))
			if n < 16 || n > len(buf) {
				return
			}
			r := reply{binary.NativeEndian.Uint16(buf[4:]), binary.NativeEndian.Uint16(buf[6:]), binary.NativeEndian.Uint32(buf[8:]), buf[16:n]}
			if !yield(r) {
				return
			}
			buf = buf[min((n+3)&^3, len(buf)):]
		}
	}
}

// failure is the error that an answer begins with, nil for 0.
func (r reply) failure() error {
	if len(r.body) < 4 {
		return nil
	}
	if errno := -int32(binary.NativeEndian.Uint32(r.body)); errno > 0 { //nolint:gosec // it is one
		return syscall.Errno(errno)
	}
	return nil
}
