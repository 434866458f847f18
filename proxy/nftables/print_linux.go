package nftables

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"

	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/internal/nfnetlink"
)

// likeness is what a table is recognized by.
type likeness struct {
	// generation counts the transactions of all programs.
	generation uint32
	// sum is of the table's chains, rules and sets, with their handles and sizes.
	sum uint64
}

// remember takes the likeness of what was just written.
func (w *Writer) remember() (err error) {
	w.likeness, err = w.look()
	return err
}

// intact compares the present likeness with the last one, and takes it if the table is the same.
func (w *Writer) intact() (bool, error) {
	generation, err := w.generation()
	if err != nil || generation == w.likeness.generation {
		return err == nil, err
	}
	now, err := w.look()
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	if err != nil || now.sum != w.likeness.sum {
		return false, err
	}
	w.likeness = now
	return true, nil
}

func (w *Writer) generation() (n uint32, err error) {
	err = w.conn.Ask(nfnetlink.Tables<<8|unix.NFT_MSG_GETGEN, unix.AF_UNSPEC, nil, func(a []byte) {
		n = uint32(nfnetlink.Number(nfnetlink.Find(a, unix.NFTA_GEN_ID))) //nolint:gosec // four bytes
	})
	if err != nil {
		return 0, fmt.Errorf("reading the generation of the tables: %w", err)
	}
	return n, nil
}

// look takes a likeness. While others write, it tries again.
func (w *Writer) look() (p likeness, err error) {
	for attempts := 10; ; attempts-- {
		if p.generation, err = w.generation(); err != nil {
			return p, err
		}
		if p.sum, err = w.sum(); err != nil && !errors.Is(err, nfnetlink.ErrInterrupted) {
			return p, err
		}
		after, again := w.generation()
		if again != nil {
			return p, again
		}
		if err == nil && after == p.generation {
			return p, nil
		}
		if attempts == 0 {
			return p, errors.New("others keep changing tables")
		}
	}
}

// sum reads the table without its elements. The order of a dump is that of creation.
func (w *Writer) sum() (uint64, error) {
	h := fnv.New64a()
	write := func(a []byte, kinds ...uint16) {
		for _, k := range kinds {
			v := nfnetlink.Find(a, k)
			_, _ = h.Write(binary.NativeEndian.AppendUint32(nil, uint32(len(v)))) //nolint:gosec // short
			_, _ = h.Write(v)
		}
	}
	table := func(kind uint16) func(*nfnetlink.Message) {
		return func(m *nfnetlink.Message) { m.Text(kind, w.table) }
	}
	err := w.conn.Ask(nfnetlink.Tables<<8|unix.NFT_MSG_GETTABLE, unix.NFPROTO_INET, table(unix.NFTA_TABLE_NAME), func(a []byte) {
		write(a, unix.NFTA_TABLE_FLAGS, unix.NFTA_TABLE_USE, tableHandle)
	})
	if err != nil {
		return 0, err
	}
	mine := func(kind uint16, a []byte) bool { return nfnetlink.String(nfnetlink.Find(a, kind)) == w.table }
	err = w.conn.Dump(nfnetlink.Tables<<8|unix.NFT_MSG_GETCHAIN, unix.NFPROTO_INET, nil, func(a []byte) {
		if mine(unix.NFTA_CHAIN_TABLE, a) {
			write(a, unix.NFTA_CHAIN_HANDLE, unix.NFTA_CHAIN_USE)
		}
	})
	if err != nil {
		return 0, err
	}
	err = w.conn.Dump(nfnetlink.Tables<<8|unix.NFT_MSG_GETRULE, unix.NFPROTO_INET, table(unix.NFTA_RULE_TABLE), func(a []byte) {
		write(a, unix.NFTA_RULE_HANDLE)
	})
	if err != nil {
		return 0, err
	}
	err = w.conn.Dump(nfnetlink.Tables<<8|unix.NFT_MSG_GETSET, unix.NFPROTO_INET, table(unix.NFTA_SET_TABLE), func(a []byte) {
		write(a, setHandle)
		if nfnetlink.Number(nfnetlink.Find(a, unix.NFTA_SET_FLAGS))&unix.NFT_SET_TIMEOUT == 0 {
			write(a, setCount) // of old kernels, nothing
		}
	})
	return h.Sum64(), err
}
