package nfnetlink

import (
	"encoding/binary"
	"iter"
)

const (
	headerLen = 16 + 4 // of netlink, and of netfilter's own
	nested    = 1 << 15
	typeMask  = 1<<14 - 1
)

// Message is a sequence of messages. The zero value is empty.
type Message struct {
	buf  []byte
	last int // where the last message begins
	seq  uint32
}

// Len is the size in bytes.
func (m *Message) Len() int { return len(m.buf) }

// Add begins a message of the type with the family and resource of netfilter's header; the attributes that follow are its.
func (m *Message) Add(kind, flags uint16, family uint8, resource uint16) {
	m.finish()
	m.last = len(m.buf)
	m.seq++
	m.buf = binary.NativeEndian.AppendUint32(m.buf, 0) // the length, set at the end
	m.buf = binary.NativeEndian.AppendUint16(m.buf, kind)
	m.buf = binary.NativeEndian.AppendUint16(m.buf, flags)
	m.buf = binary.NativeEndian.AppendUint32(m.buf, m.seq)
	m.buf = binary.NativeEndian.AppendUint32(m.buf, 0)
	m.buf = append(m.buf, family, 0)
	m.buf = binary.BigEndian.AppendUint16(m.buf, resource)
}

// flag adds flags to the last message.
func (m *Message) flag(flags uint16) {
	at := m.buf[m.last+6:]
	binary.NativeEndian.PutUint16(at, binary.NativeEndian.Uint16(at)|flags)
}

func (m *Message) finish() {
	if len(m.buf) > 0 {
		binary.NativeEndian.PutUint32(m.buf[m.last:], uint32(len(m.buf)-m.last)) //nolint:gosec // a message is shorter
	}
}

// Bytes adds an attribute.
func (m *Message) Bytes(kind uint16, value []byte) {
	at := m.Begin(kind &^ nested)
	m.buf = append(m.buf, value...)
	m.end(at, 0)
}

// Raw adds attributes that another message had.
func (m *Message) Raw(attributes []byte) {
	m.buf = append(m.buf, attributes...)
	for len(m.buf)%4 != 0 {
		m.buf = append(m.buf, 0)
	}
}

// Text adds a string.
func (m *Message) Text(kind uint16, value string) {
	at := m.Begin(kind)
	m.buf = append(append(m.buf, value...), 0)
	m.end(at, 0)
}

// Uint32 adds a number in network order, as nearly all of netfilter's are.
func (m *Message) Uint32(kind uint16, value uint32) {
	at := m.Begin(kind)
	m.buf = binary.BigEndian.AppendUint32(m.buf, value)
	m.end(at, 0)
}

// Uint64 is Uint32 for eight bytes.
func (m *Message) Uint64(kind uint16, value uint64) {
	at := m.Begin(kind)
	m.buf = binary.BigEndian.AppendUint64(m.buf, value)
	m.end(at, 0)
}

// Begin begins an attribute that contains others; End(at) ends it.
func (m *Message) Begin(kind uint16) (at int) {
	at = len(m.buf)
	m.buf = append(m.buf, 0, 0, 0, 0)
	binary.NativeEndian.PutUint16(m.buf[at+2:], kind)
	return at
}

// End ends the attribute that Begin began.
func (m *Message) End(at int) { m.end(at, nested) }

func (m *Message) end(at int, flag uint16) {
	head := m.buf[at:]
	binary.NativeEndian.PutUint16(head, uint16(len(head))) //nolint:gosec // the caller keeps attributes short
	binary.NativeEndian.PutUint16(head[2:], binary.NativeEndian.Uint16(head[2:])|flag)
	for len(m.buf)%4 != 0 {
		m.buf = append(m.buf, 0)
	}
}

// Attributes are those in a buffer, by type, which may be another attribute's value.
func Attributes(buf []byte) iter.Seq2[uint16, []byte] {
	return func(yield func(uint16, []byte) bool) {
		for len(buf) >= 4 {
			n := int(binary.NativeEndian.Uint16(buf))
			if n < 4 || n > len(buf) {
				return
			}
			if !yield(binary.NativeEndian.Uint16(buf[2:])&typeMask, buf[4:n]) {
				return
			}
			buf = buf[min((n+3)&^3, len(buf)):]
		}
	}
}

// Find is the first attribute of the type, looked for along the path.
func Find(buf []byte, path ...uint16) []byte {
	for _, kind := range path {
		var found []byte
		for k, value := range Attributes(buf) {
			if k == kind {
				found = value
				break
			}
		}
		if buf = found; buf == nil {
			return nil
		}
	}
	return buf
}

// Number reads a number in network order of up to eight bytes.
func Number(value []byte) (n uint64) {
	for _, b := range value[:min(len(value), 8)] {
		n = n<<8 | uint64(b)
	}
	return n
}

// String reads a string with or without its zero.
func String(value []byte) string {
	if n := len(value); n > 0 && value[n-1] == 0 {
		value = value[:n-1]
	}
	return string(value)
}
