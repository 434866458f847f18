package nftables

import (
	"errors"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/internal/nfnetlink"
)

// remembered is a client of a sticky service, as the kernel has it.
type remembered struct {
	key, value []byte
	// timeout is how long it is remembered after its last connection, left how long from now.
	timeout, left time.Duration
}

// clients reads the clients of sticky services. Without a table there are none.
func (w *Writer) clients(f family) (all []remembered, err error) {
	words := int(f.words())
	err = w.conn.Dump(nfnetlink.Tables<<8|unix.NFT_MSG_GETSETELEM, unix.NFPROTO_INET, func(m *nfnetlink.Message) {
		m.Text(unix.NFTA_SET_ELEM_LIST_TABLE, w.table)
		m.Text(unix.NFTA_SET_ELEM_LIST_SET, affinity.name(f))
	}, func(a []byte) {
		for _, e := range nfnetlink.Attributes(nfnetlink.Find(a, unix.NFTA_SET_ELEM_LIST_ELEMENTS)) {
			milliseconds := func(kind uint16) time.Duration {
				return time.Duration(nfnetlink.Number(nfnetlink.Find(e, kind))) * time.Millisecond //nolint:gosec // at most a day
			}
			r := remembered{
				slices.Clone(nfnetlink.Find(e, unix.NFTA_SET_ELEM_KEY, unix.NFTA_DATA_VALUE)), slices.Clone(nfnetlink.Find(e, unix.NFTA_SET_ELEM_DATA, unix.NFTA_DATA_VALUE)),
				milliseconds(unix.NFTA_SET_ELEM_TIMEOUT), milliseconds(unix.NFTA_SET_ELEM_EXPIRATION),
			}
			if len(r.key) == 4+4*words && len(r.value) == 8 && len(all) < clients { // others may have made the map
				all = append(all, r)
			}
		}
	})
	if errors.Is(err, unix.ENOENT) || errors.Is(err, nfnetlink.ErrInterrupted) { // then most of them
		err = nil
	}
	return all, err
}

// still are those whose service still is sticky, for at most as long as it says.
func (s *state) still(all []remembered) (kept []remembered) {
	sticky := map[string]time.Duration{}
	for name, ports := range s.services {
		for i := range ports {
			if p := &ports[i]; p.Affinity > 0 {
				sticky[string(native(s.number(identityOf(name, p))))] = p.Affinity
			}
		}
	}
	for _, r := range all {
		if most := sticky[string(r.key[:4])]; most > 0 && r.left > 0 {
			r.timeout = min(r.timeout, most)
			r.left = min(r.left, r.timeout)
			kept = append(kept, r)
		}
	}
	return kept
}

// remember writes clients back.
func (t *transaction) remember(f family, all []remembered) {
	for same := range slices.Chunk(all, 256) {
		t.begin(unix.NFT_MSG_NEWSETELEM, newMessage)
		t.m.Text(unix.NFTA_SET_ELEM_LIST_TABLE, t.table)
		t.m.Text(unix.NFTA_SET_ELEM_LIST_SET, affinity.name(f))
		list := t.m.Begin(unix.NFTA_SET_ELEM_LIST_ELEMENTS)
		for _, r := range same {
			at := t.m.Begin(unix.NFTA_LIST_ELEM)
			value(t.m, unix.NFTA_SET_ELEM_KEY, r.key)
			value(t.m, unix.NFTA_SET_ELEM_DATA, r.value)
			t.m.Uint64(unix.NFTA_SET_ELEM_TIMEOUT, uint64(r.timeout/time.Millisecond))         //nolint:gosec // positive
			t.m.Uint64(unix.NFTA_SET_ELEM_EXPIRATION, uint64(max(r.left/time.Millisecond, 1))) //nolint:gosec // positive
			t.m.End(at)
		}
		t.m.End(list)
	}
}

// known are the clients of services that are sticky in the new state.
func (w *Writer) known(s *state) (known [families][]remembered) {
	for f := range families {
		all, err := w.clients(f)
		if err != nil {
			w.log.Warn("clients of services with session affinity are forgotten", "error", err)
		}
		known[f] = s.still(all)
	}
	return known
}
