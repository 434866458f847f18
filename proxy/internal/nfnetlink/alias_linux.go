package nfnetlink

import (
	"iter"

	"github.com/keelson-dev/keelson/internal/nfnetlink"
)

// Subsystems.
const (
	Conntrack = nfnetlink.Conntrack
	Tables    = nfnetlink.Tables
)

// ErrInterrupted means that what was read changed meanwhile: read again.
var ErrInterrupted = nfnetlink.ErrInterrupted

type (
	// Message is a sequence of messages.
	Message = nfnetlink.Message
	// Conn is a connection to the kernel.
	Conn = nfnetlink.Conn
	// Error is the kernel's refusal of one message.
	Error = nfnetlink.Error
)

// Open connects to the kernel of the calling thread's network namespace.
func Open() (*Conn, error) { return nfnetlink.Open() }

// Attributes are those in a buffer, by type.
func Attributes(buf []byte) iter.Seq2[uint16, []byte] { return nfnetlink.Attributes(buf) }

// Find is the first attribute of the type, looked for along the path.
func Find(buf []byte, path ...uint16) []byte { return nfnetlink.Find(buf, path...) }

// Number reads a number in network order of up to eight bytes.
func Number(value []byte) uint64 { return nfnetlink.Number(value) }

// String reads a string with or without its zero.
func String(value []byte) string { return nfnetlink.String(value) }
