package nft

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/internal/nfnetlink"
)

// Verdicts.
const (
	Drop   = 0
	Accept = 1
	Jump   = -3
	Return = -5
)

// What x/sys/unix lacks of the kernel's interface.
const (
	setDescConcat = 2
	setFieldLen   = 1
	setConcat     = 0x80
	setCount      = 20
	setHandle     = 16
	tableHandle   = 4
	setElemKeyEnd = 10
	ctState       = 0
)

// Register is a number of one of the sixteen registers of 32 bits.
type Register uint32

func (r Register) number() uint32 { return unix.NFT_REG32_00 + uint32(r) }

// Expression writes one expression of a rule.
type Expression func(m *nfnetlink.Message)

// expr is an expression with its attributes.
func expr(name string, fill func(m *nfnetlink.Message)) Expression {
	return func(m *nfnetlink.Message) {
		at := m.Begin(unix.NFTA_LIST_ELEM)
		m.Text(unix.NFTA_EXPR_NAME, name)
		data := m.Begin(unix.NFTA_EXPR_DATA)
		fill(m)
		m.End(data)
		m.End(at)
	}
}

// value writes data.
func value(m *nfnetlink.Message, kind uint16, data []byte) {
	at := m.Begin(kind)
	m.Bytes(unix.NFTA_DATA_VALUE, data)
	m.End(at)
}

// verdict writes a verdict as data.
func verdict(m *nfnetlink.Message, kind uint16, code int32, chain string) {
	at := m.Begin(kind)
	inner := m.Begin(unix.NFTA_DATA_VERDICT)
	m.Uint32(unix.NFTA_VERDICT_CODE, uint32(code)) //nolint:gosec // the kernel reads it as signed
	if chain != "" {
		m.Text(unix.NFTA_VERDICT_CHAIN, chain)
	}
	m.End(inner)
	m.End(at)
}

// Network loads bytes of the packet from its network header on, Transport from that of its transport.
func Network(to Register, offset, length uint32) Expression {
	return payload(to, unix.NFT_PAYLOAD_NETWORK_HEADER, offset, length)
}

// Transport loads bytes of the packet from its transport header on.
func Transport(to Register, offset, length uint32) Expression {
	return payload(to, unix.NFT_PAYLOAD_TRANSPORT_HEADER, offset, length)
}

func payload(to Register, base, offset, length uint32) Expression {
	return expr("payload", func(m *nfnetlink.Message) {
		m.Uint32(unix.NFTA_PAYLOAD_DREG, to.number())
		m.Uint32(unix.NFTA_PAYLOAD_BASE, base)
		m.Uint32(unix.NFTA_PAYLOAD_OFFSET, offset)
		m.Uint32(unix.NFTA_PAYLOAD_LEN, length)
	})
}

// Meta loads what the kernel knows of the packet.
func Meta(to Register, key uint32) Expression {
	return expr("meta", func(m *nfnetlink.Message) {
		m.Uint32(unix.NFTA_META_KEY, key)
		m.Uint32(unix.NFTA_META_DREG, to.number())
	})
}

// State loads the state of the packet's connection as a set of bits.
func State(to Register) Expression {
	return expr("ct", func(m *nfnetlink.Message) {
		m.Uint32(unix.NFTA_CT_KEY, ctState)
		m.Uint32(unix.NFTA_CT_DREG, to.number())
	})
}

// Is goes on if the register has the data.
func Is(from Register, data []byte) Expression { return compare(from, unix.NFT_CMP_EQ, data) }

// IsNot goes on if the register has other data.
func IsNot(from Register, data []byte) Expression { return compare(from, unix.NFT_CMP_NEQ, data) }

// AtLeast goes on if the register has the data, or greater.
func AtLeast(from Register, data []byte) Expression { return compare(from, unix.NFT_CMP_GTE, data) }

// AtMost goes on if the register has the data, or less.
func AtMost(from Register, data []byte) Expression { return compare(from, unix.NFT_CMP_LTE, data) }

func compare(from Register, op uint32, data []byte) Expression {
	return expr("cmp", func(m *nfnetlink.Message) {
		m.Uint32(unix.NFTA_CMP_SREG, from.number())
		m.Uint32(unix.NFTA_CMP_OP, op)
		value(m, unix.NFTA_CMP_DATA, data)
	})
}

// Mask computes a register and the bits.
func Mask(in Register, bits []byte) Expression {
	return expr("bitwise", func(m *nfnetlink.Message) {
		m.Uint32(unix.NFTA_BITWISE_SREG, in.number())
		m.Uint32(unix.NFTA_BITWISE_DREG, in.number())
		m.Uint32(unix.NFTA_BITWISE_LEN, uint32(len(bits))) //nolint:gosec // few bytes
		value(m, unix.NFTA_BITWISE_MASK, bits)
		value(m, unix.NFTA_BITWISE_XOR, make([]byte, len(bits)))
	})
}

// In goes on if the set has the key in the register.
func In(set string, from Register) Expression {
	return expr("lookup", func(m *nfnetlink.Message) {
		m.Text(unix.NFTA_LOOKUP_SET, set)
		m.Uint32(unix.NFTA_LOOKUP_SREG, from.number())
	})
}

// Decided takes the verdict of a map, if it has the key in the register.
func Decided(set string, from Register) Expression {
	return expr("lookup", func(m *nfnetlink.Message) {
		m.Text(unix.NFTA_LOOKUP_SET, set)
		m.Uint32(unix.NFTA_LOOKUP_SREG, from.number())
		m.Uint32(unix.NFTA_LOOKUP_DREG, unix.NFT_REG_VERDICT)
	})
}

// Verdict ends the rule with a verdict; the chain is for jumps.
func Verdict(code int32, chain string) Expression {
	return expr("immediate", func(m *nfnetlink.Message) {
		m.Uint32(unix.NFTA_IMMEDIATE_DREG, unix.NFT_REG_VERDICT)
		verdict(m, unix.NFTA_IMMEDIATE_DATA, code, chain)
	})
}

// Native is a number as the kernel has it in registers.
func Native(n uint32) []byte { return binary.NativeEndian.AppendUint32(nil, n) }
