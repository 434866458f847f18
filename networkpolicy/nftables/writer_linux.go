package nftables

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/internal/nfnetlink"
	"github.com/keelson-dev/keelson/internal/nft"
	"github.com/keelson-dev/keelson/networkpolicy"
)

// Options of a Writer. The zero value is ready to use.
type Options struct {
	// Table is the name of the table; keelson-networkpolicy when empty.
	Table string
}

// Writer is a networkpolicy.Writer that keeps the tables in the kernel.
type Writer struct {
	table    string
	conn     *nfnetlink.Conn
	state    *state // nil while the kernel's is not known
	likeness nft.Likeness
}

var _ networkpolicy.Writer = (*Writer)(nil)

// New connects to the kernel of the calling thread's network namespace, whose tables the Writer writes from wherever it
// is called. It changes nothing. Without the right to change tables it fails only later.
func New(o Options) (*Writer, error) {
	conn, err := nfnetlink.Open()
	if err != nil {
		return nil, fmt.Errorf("nftables: %w", err)
	}
	return &Writer{table: cmp.Or(o.Table, "keelson-networkpolicy"), conn: conn}, nil
}

// Close ends the connection to the kernel and leaves the table as it is.
func (w *Writer) Close() error { return w.conn.Close() }

// Remove removes the table, if there is one.
func (w *Writer) Remove(context.Context) error {
	w.state = nil
	if err := w.transaction(0, func(t *nft.Transaction) { t.Remove() }); err != nil {
		return fmt.Errorf("removing table %s: %w", w.table, err)
	}
	return nil
}

func (w *Writer) transaction(generation uint32, fill func(*nft.Transaction)) error {
	return w.conn.Transaction(generation, func(m *nfnetlink.Message) { fill(&nft.Transaction{Table: w.table, M: m}) })
}

// Sync implements networkpolicy.Writer.
func (w *Writer) Sync(_ context.Context, tables networkpolicy.Tables) error {
	w.state = nil
	s := newState()
	all := networkpolicy.Changes{Pods: tables.Pods, Selections: tables.Selections, Ports: tables.Ports, Policies: map[networkpolicy.Name]*networkpolicy.Policy{}}
	for n, p := range tables.Policies {
		all.Policies[n] = &p
	}
	e := s.update(all)
	err := w.transaction(0, func(t *nft.Transaction) {
		layout(t)
		e.apply(t)
	})
	if err == nil {
		w.likeness, err = nft.Look(w.conn, w.table)
	}
	if err != nil {
		return fmt.Errorf("writing table %s: %w", w.table, err)
	}
	w.state = s
	return nil
}

// Update implements networkpolicy.Writer.
func (w *Writer) Update(_ context.Context, changes networkpolicy.Changes) error {
	s := w.state
	if s == nil {
		return ErrUnsynced
	}
	w.state = nil // until the kernel has it
	e := s.update(changes)
	if e.empty() {
		w.state = s
		return nil
	}
	for attempts := 10; ; attempts-- {
		err := w.transaction(w.likeness.Generation, e.apply)
		if err == nil {
			break
		}
		if !errors.Is(err, unix.ERESTART) || attempts == 0 {
			return fmt.Errorf("changing table %s: %w", w.table, err)
		}
		// Others have changed something, and mostly not this table.
		switch intact, err := w.likeness.Holds(w.conn); {
		case err != nil:
			return err
		case !intact:
			return ErrChanged
		}
	}
	if err := w.remember(e); err != nil {
		return fmt.Errorf("reading table %s: %w", w.table, err)
	}
	w.state = s
	return nil
}

// remember takes the likeness after an edit.
func (w *Writer) remember(e *edit) (err error) {
	if sets, ok := e.onlyMembers(); ok {
		return w.likeness.Refresh(w.conn, sets)
	}
	w.likeness, err = nft.Look(w.conn, w.table)
	return err
}

// Intact implements networkpolicy.Writer. It is cheap as long as nobody changes any table.
func (w *Writer) Intact(context.Context) (bool, error) {
	if w.state == nil {
		return false, nil
	}
	return w.likeness.Holds(w.conn)
}
