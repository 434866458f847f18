package nft

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"

	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/internal/nfnetlink"
)

// Likeness is what a table is recognized by: without its elements, except for their number.
type Likeness struct {
	table string
	// Generation counts the transactions of all programs.
	Generation uint32
	// rest is of the table's chains and rules, with their handles and uses.
	rest uint64
	sets map[string]setLike
}

// setLike is what a set is recognized by. Old kernels do not tell the count.
type setLike struct{ handle, count uint64 }

// Look takes the likeness of a table. While others write, it tries again.
func Look(c *nfnetlink.Conn, table string) (Likeness, error) {
	l := Likeness{table: table}
	err := l.steadily(c, func() (err error) {
		if l.rest, err = rest(c, table); err != nil {
			return err
		}
		l.sets = map[string]setLike{}
		return c.Dump(nfnetlink.Tables<<8|unix.NFT_MSG_GETSET, unix.NFPROTO_INET, naming(unix.NFTA_SET_TABLE, table), l.see)
	})
	return l, err
}

// Refresh takes the likeness of sets that were changed, while all else was not: by who holds the likeness, in a
// transaction that demanded its generation.
func (l *Likeness) Refresh(c *nfnetlink.Conn, sets []string) error {
	return l.steadily(c, func() error {
		for _, name := range sets {
			err := c.Ask(nfnetlink.Tables<<8|unix.NFT_MSG_GETSET, unix.NFPROTO_INET, func(m *nfnetlink.Message) {
				m.Text(unix.NFTA_SET_TABLE, l.table)
				m.Text(unix.NFTA_SET_NAME, name)
			}, l.see)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func (l *Likeness) see(a []byte) {
	l.sets[nfnetlink.String(nfnetlink.Find(a, unix.NFTA_SET_NAME))] = setLike{
		nfnetlink.Number(nfnetlink.Find(a, setHandle)), nfnetlink.Number(nfnetlink.Find(a, setCount)),
	}
}

// steadily looks until nobody has changed any table meanwhile.
func (l *Likeness) steadily(c *nfnetlink.Conn, look func() error) error {
	for attempts := 10; ; attempts-- {
		before, err := generation(c)
		if err != nil {
			return err
		}
		seen := look()
		if seen != nil && !errors.Is(seen, nfnetlink.ErrInterrupted) {
			return seen
		}
		after, err := generation(c)
		if err != nil {
			return err
		}
		if seen == nil && after == before {
			l.Generation = before
			return nil
		}
		if attempts == 0 {
			return errors.New("others keep changing tables")
		}
	}
}

// Holds reports whether the table still looks alike, and then takes its present likeness. It is cheap as long as nobody
// changes any table.
func (l *Likeness) Holds(c *nfnetlink.Conn) (bool, error) {
	now, err := generation(c)
	if err != nil || now == l.Generation {
		return err == nil, err
	}
	seen, err := Look(c, l.table)
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	if err != nil || seen.rest != l.rest || !maps.Equal(seen.sets, l.sets) {
		return false, err
	}
	*l = seen
	return true, nil
}

func naming(kind uint16, table string) func(*nfnetlink.Message) {
	return func(m *nfnetlink.Message) { m.Text(kind, table) }
}

func generation(c *nfnetlink.Conn) (n uint32, err error) {
	err = c.Ask(nfnetlink.Tables<<8|unix.NFT_MSG_GETGEN, unix.AF_UNSPEC, nil, func(a []byte) {
		n = uint32(nfnetlink.Number(nfnetlink.Find(a, unix.NFTA_GEN_ID))) //nolint:gosec // four bytes
	})
	if err != nil {
		return 0, fmt.Errorf("reading the generation of the tables: %w", err)
	}
	return n, nil
}

// rest reads the table but for its sets. The order of a dump is that of creation.
func rest(c *nfnetlink.Conn, table string) (uint64, error) {
	h := fnv.New64a()
	write := func(a []byte, kinds ...uint16) {
		for _, k := range kinds {
			v := nfnetlink.Find(a, k)
			_, _ = h.Write(binary.NativeEndian.AppendUint32(nil, uint32(len(v)))) //nolint:gosec // short
			_, _ = h.Write(v)
		}
	}
	err := c.Ask(nfnetlink.Tables<<8|unix.NFT_MSG_GETTABLE, unix.NFPROTO_INET, naming(unix.NFTA_TABLE_NAME, table), func(a []byte) {
		write(a, unix.NFTA_TABLE_FLAGS, unix.NFTA_TABLE_USE, tableHandle)
	})
	if err != nil {
		return 0, err
	}
	err = c.Dump(nfnetlink.Tables<<8|unix.NFT_MSG_GETCHAIN, unix.NFPROTO_INET, nil, func(a []byte) {
		if nfnetlink.String(nfnetlink.Find(a, unix.NFTA_CHAIN_TABLE)) == table {
			write(a, unix.NFTA_CHAIN_HANDLE, unix.NFTA_CHAIN_USE)
		}
	})
	if err != nil {
		return 0, err
	}
	err = c.Dump(nfnetlink.Tables<<8|unix.NFT_MSG_GETRULE, unix.NFPROTO_INET, naming(unix.NFTA_RULE_TABLE, table), func(a []byte) {
		write(a, unix.NFTA_RULE_HANDLE)
	})
	return h.Sum64(), err
}
