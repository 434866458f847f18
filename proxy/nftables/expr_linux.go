package nftables

import (
	"encoding/binary"
	"time"

	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/internal/nfnetlink"
)

// What x/sys/unix lacks of the kernel's interface.
const (
	setDescConcat   = 2
	setFieldLen     = 1
	setConcat       = 0x80
	setCount        = 20
	setHandle       = 16
	tableHandle     = 4
	setElemKeyEnd   = 10
	dynsetDelete    = 2
	natRandomFully  = 0x10
	natDestination  = 1
	ctState         = 0
	ctStatus        = 2
	ctStateNew      = 1 << 3
	ctStatusDNAT    = 1 << 5
	metaNFProto     = unix.NFT_META_NFPROTO
	addressLocal    = unix.RTN_LOCAL
	lookupInverted  = 1
	masqueradedMark = 0x4000 // as kube-proxy's
)

// Verdicts besides those of the kernel's interface that are positive.
const (
	verdictGoto   = -4
	verdictReturn = -5
	verdictDrop   = 0
	accept        = 1
)

// register is a number of one of the sixteen registers of 32 bits.
type register uint32

func (r register) number() uint32 { return unix.NFT_REG32_00 + uint32(r) }

// expression writes one expression of a rule.
type expression func(m *nfnetlink.Message)

// expr is an expression with its attributes.
func expr(name string, fill func(m *nfnetlink.Message)) expression {
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

// payload loads bytes of the packet.
func payload(to register, base, offset, length uint32) expression {
	return expr("payload", func(m *nfnetlink.Message) {
		m.Uint32(unix.NFTA_PAYLOAD_DREG, to.number())
		m.Uint32(unix.NFTA_PAYLOAD_BASE, base)
		m.Uint32(unix.NFTA_PAYLOAD_OFFSET, offset)
		m.Uint32(unix.NFTA_PAYLOAD_LEN, length)
	})
}

func meta(to register, key uint32) expression {
	return expr("meta", func(m *nfnetlink.Message) {
		m.Uint32(unix.NFTA_META_KEY, key)
		m.Uint32(unix.NFTA_META_DREG, to.number())
	})
}

func setMark(from register) expression {
	return expr("meta", func(m *nfnetlink.Message) {
		m.Uint32(unix.NFTA_META_KEY, unix.NFT_META_MARK)
		m.Uint32(unix.NFTA_META_SREG, from.number())
	})
}

func ct(to register, key uint32) expression {
	return expr("ct", func(m *nfnetlink.Message) {
		m.Uint32(unix.NFTA_CT_KEY, key)
		m.Uint32(unix.NFTA_CT_DREG, to.number())
	})
}

// addressType loads what the host's routes say of an address: flags tell which.
func addressType(to register, flags uint32) expression {
	return expr("fib", func(m *nfnetlink.Message) {
		m.Uint32(unix.NFTA_FIB_FLAGS, flags)
		m.Uint32(unix.NFTA_FIB_RESULT, unix.NFT_FIB_RESULT_ADDRTYPE)
		m.Uint32(unix.NFTA_FIB_DREG, to.number())
	})
}

// compare goes on if the register has, or with differ has not, the data.
func compare(from register, differ bool, data []byte) expression {
	return expr("cmp", func(m *nfnetlink.Message) {
		op := uint32(unix.NFT_CMP_EQ)
		if differ {
			op = unix.NFT_CMP_NEQ
		}
		m.Uint32(unix.NFTA_CMP_SREG, from.number())
		m.Uint32(unix.NFTA_CMP_OP, op)
		value(m, unix.NFTA_CMP_DATA, data)
	})
}

// mask computes from&and^xor.
func mask(to, from register, and, xor []byte) expression {
	return expr("bitwise", func(m *nfnetlink.Message) {
		m.Uint32(unix.NFTA_BITWISE_SREG, from.number())
		m.Uint32(unix.NFTA_BITWISE_DREG, to.number())
		m.Uint32(unix.NFTA_BITWISE_LEN, uint32(len(and))) //nolint:gosec // few bytes
		value(m, unix.NFTA_BITWISE_MASK, and)
		value(m, unix.NFTA_BITWISE_XOR, xor)
	})
}

// shown is what nft takes for the number that a map leaves in a register. nft 1.0 ends with an assertion when it shows a
// key that begins with the value of a map; so the values of maps have a word in front, the number comes to be in a
// register that nft believes to have what shown loads.
func shown(in register) expression { return meta(in, unix.NFT_META_MARK) }

// in goes on if the set has the key in the register.
func in(set string, from register) expression { return lookup(set, from, 0) }

// notIn goes on if not.
func notIn(set string, from register) expression { return lookup(set, from, lookupInverted) }

func lookup(set string, from register, flags uint32) expression {
	return expr("lookup", func(m *nfnetlink.Message) {
		m.Text(unix.NFTA_LOOKUP_SET, set)
		m.Uint32(unix.NFTA_LOOKUP_SREG, from.number())
		if flags != 0 {
			m.Uint32(unix.NFTA_LOOKUP_FLAGS, flags)
		}
	})
}

// mapped loads the value of a map, and goes on if there is one.
func mapped(set string, from, to register) expression {
	return expr("lookup", func(m *nfnetlink.Message) {
		m.Text(unix.NFTA_LOOKUP_SET, set)
		m.Uint32(unix.NFTA_LOOKUP_SREG, from.number())
		m.Uint32(unix.NFTA_LOOKUP_DREG, to.number())
	})
}

// decided takes the verdict of a map.
func decided(set string, from register) expression {
	return expr("lookup", func(m *nfnetlink.Message) {
		m.Text(unix.NFTA_LOOKUP_SET, set)
		m.Uint32(unix.NFTA_LOOKUP_SREG, from.number())
		m.Uint32(unix.NFTA_LOOKUP_DREG, unix.NFT_REG_VERDICT)
	})
}

func load(to register, data []byte) expression {
	return expr("immediate", func(m *nfnetlink.Message) {
		m.Uint32(unix.NFTA_IMMEDIATE_DREG, to.number())
		value(m, unix.NFTA_IMMEDIATE_DATA, data)
	})
}

func end(code int32, chain string) expression {
	return expr("immediate", func(m *nfnetlink.Message) {
		m.Uint32(unix.NFTA_IMMEDIATE_DREG, unix.NFT_REG_VERDICT)
		verdict(m, unix.NFTA_IMMEDIATE_DATA, code, chain)
	})
}

// random loads a random number below n.
func random(to register, n uint32) expression {
	return expr("numgen", func(m *nfnetlink.Message) {
		m.Uint32(unix.NFTA_NG_DREG, to.number())
		m.Uint32(unix.NFTA_NG_MODULUS, n)
		m.Uint32(unix.NFTA_NG_TYPE, unix.NFT_NG_RANDOM)
		m.Uint32(unix.NFTA_NG_OFFSET, 0)
	})
}

// redirect changes the destination.
func redirect(family uint8, address, port register) expression {
	return expr("nat", func(m *nfnetlink.Message) {
		m.Uint32(unix.NFTA_NAT_TYPE, natDestination)
		m.Uint32(unix.NFTA_NAT_FAMILY, uint32(family))
		m.Uint32(unix.NFTA_NAT_REG_ADDR_MIN, address.number())
		m.Uint32(unix.NFTA_NAT_REG_PROTO_MIN, port.number())
	})
}

func masquerade() expression {
	return expr("masq", func(m *nfnetlink.Message) { m.Uint32(unix.NFTA_MASQ_FLAGS, natRandomFully) })
}

func reject() expression {
	return expr("reject", func(m *nfnetlink.Message) {
		m.Uint32(unix.NFTA_REJECT_TYPE, unix.NFT_REJECT_ICMPX_UNREACH)
		m.Bytes(unix.NFTA_REJECT_ICMP_CODE, []byte{unix.NFT_REJECT_ICMPX_PORT_UNREACH})
	})
}

// dynset adds to, updates or deletes from a map while packets pass.
func dynset(set string, op uint32, key, data register, timeout time.Duration) expression {
	return expr("dynset", func(m *nfnetlink.Message) {
		m.Text(unix.NFTA_DYNSET_SET_NAME, set)
		m.Uint32(unix.NFTA_DYNSET_OP, op)
		m.Uint32(unix.NFTA_DYNSET_SREG_KEY, key.number())
		m.Uint32(unix.NFTA_DYNSET_SREG_DATA, data.number())
		if timeout != 0 {
			m.Uint64(unix.NFTA_DYNSET_TIMEOUT, uint64(timeout.Milliseconds())) //nolint:gosec // not negative
		}
	})
}

// native are numbers as the kernel has them in registers.
func native(numbers ...uint32) (all []byte) {
	for _, n := range numbers {
		all = binary.NativeEndian.AppendUint32(all, n)
	}
	return all
}
