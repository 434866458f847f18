package nfnetlink

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// ErrInterrupted means that what was read changed meanwhile: read again.
var ErrInterrupted = errors.New("what was read changed meanwhile")

// Dump sends a request for many objects and calls each for every one's attributes, which it may keep no longer.
// It reads to the end whatever each does.
func (c *Conn) Dump(kind uint16, family uint8, fill func(*Message), each func(attributes []byte)) error {
	return c.request(kind, unix.NLM_F_REQUEST|unix.NLM_F_DUMP, family, fill, each)
}

// Ask sends one request, which the kernel acknowledges, and calls each for the attributes of its answer, if any.
func (c *Conn) Ask(kind uint16, family uint8, fill func(*Message), each func(attributes []byte)) error {
	return c.request(kind, unix.NLM_F_REQUEST|unix.NLM_F_ACK, family, fill, each)
}

func (c *Conn) request(kind, flags uint16, family uint8, fill func(*Message), each func([]byte)) error {
	var m Message
	m.Add(kind, flags, family, 0)
	if fill != nil {
		fill(&m)
	}
	m.finish()
	if err := c.send(m.buf); err != nil {
		return err
	}
	var interrupted error
	for {
		n, _, err := unix.Recvfrom(c.fd, c.buf, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return os.NewSyscallError("recvfrom", err)
		}
		for r := range replies(c.buf[:n]) {
			if r.flags&unix.NLM_F_DUMP_INTR != 0 {
				interrupted = ErrInterrupted
			}
			switch r.kind {
			case unix.NLMSG_DONE:
				return errors.Join(interrupted, r.failure())
			case unix.NLMSG_ERROR:
				return r.failure()
			default:
				if len(r.body) >= 4 {
					each(r.body[4:])
				}
			}
		}
	}
}
