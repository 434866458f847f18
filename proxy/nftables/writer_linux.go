package nftables

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/internal/nfnetlink"
	"github.com/keelson-dev/keelson/proxy"
)

// Options of a Writer. The zero value is ready to use.
type Options struct {
	// Table is the name of the table; keelson-proxy when empty.
	Table  string
	Logger *slog.Logger
}

// Writer is a proxy.Writer that keeps the tables in the kernel.
type Writer struct {
	table    string
	log      *slog.Logger
	conn     *nfnetlink.Conn
	settings proxy.Settings
	state    *state // nil while the kernel's is not known
	likeness likeness
}

var _ proxy.Writer = (*Writer)(nil)

// New connects to the kernel of the calling thread's network namespace, whose tables the Writer writes from wherever it
// is called. It changes nothing. Without the right to change tables it fails only later.
func New(o Options) (*Writer, error) {
	conn, err := nfnetlink.Open()
	if err != nil {
		return nil, fmt.Errorf("nftables: %w", err)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Writer{table: cmp.Or(o.Table, "keelson-proxy"), log: o.Logger, conn: conn}, nil
}

// Close ends the connection to the kernel and leaves the table as it is.
func (w *Writer) Close() error { return w.conn.Close() }

// Remove removes the table, if there is one.
func (w *Writer) Remove(context.Context) error {
	w.state = nil
	if err := w.transaction(0, func(t *transaction) { t.addTable(); t.deleteTable() }); err != nil {
		return fmt.Errorf("removing table %s: %w", w.table, err)
	}
	return nil
}

func (w *Writer) transaction(generation uint32, fill func(*transaction)) error {
	return w.conn.Transaction(generation, func(m *nfnetlink.Message) { fill(&transaction{table: w.table, m: m}) })
}

// Sync implements proxy.Writer. Clients of sticky services are remembered, except for some that connect meanwhile: an
// earlier Writer may have written the table.
func (w *Writer) Sync(_ context.Context, tables proxy.Tables) error {
	var had map[proxy.Service][]proxy.Port
	if w.state != nil {
		had = w.state.services
	}
	w.state = nil
	s := newState(len(tables.Services))
	var all []element
	var choices []familyChoice
	for _, name := range slices.SortedFunc(maps.Keys(tables.Services), proxy.CompareServices) {
		s.claim(name, tables.Services[name], func(e element) { all = append(all, e) }, func(c familyChoice) { choices = append(choices, c) })
	}
	for f, claims := range s.fronts {
		all = append(all, claims[0].effect.elements(f)...)
	}
	known := w.known(s)
	err := w.transaction(0, func(t *transaction) {
		t.layout(tables.Settings)
		for _, c := range choices {
			t.addChoice(c, tables.Settings)
		}
		grouped(all, func(same []element) { t.change(unix.NFT_MSG_NEWSETELEM, same) })
		for f := range families {
			t.remember(f, known[f])
		}
	})
	if err == nil {
		err = w.remember()
	}
	if err != nil {
		return fmt.Errorf("writing table %s: %w", w.table, err)
	}
	w.settings, w.state = tables.Settings, s
	w.forget(had, tables.Services)
	return nil
}

// Update implements proxy.Writer.
func (w *Writer) Update(ctx context.Context, services map[proxy.Service][]proxy.Port) error {
	s := w.state
	if s == nil {
		return ErrUnsynced
	}
	if s.crowded() {
		return w.anew(ctx, services)
	}
	w.state = nil // until the kernel has it
	had := map[proxy.Service][]proxy.Port{}
	for name := range services {
		had[name] = s.services[name]
	}
	c := s.update(services)
	for attempts := 10; ; attempts-- {
		err := w.transaction(w.likeness.generation, func(t *transaction) { t.apply(c, w.settings) })
		if err == nil {
			break
		}
		if !errors.Is(err, unix.ERESTART) || attempts == 0 {
			return fmt.Errorf("changing table %s: %w", w.table, err)
		}
		// Others have changed something, and mostly not this table.
		switch intact, err := w.intact(); {
		case err != nil:
			return err
		case !intact:
			return ErrChanged
		}
	}
	if err := w.remember(); err != nil {
		return fmt.Errorf("reading table %s: %w", w.table, err)
	}
	w.state = s
	w.forget(had, services)
	return nil
}

// anew writes all tables with these changes.
func (w *Writer) anew(ctx context.Context, changed map[proxy.Service][]proxy.Port) error {
	switch intact, err := w.intact(); {
	case err != nil:
		return err
	case !intact:
		return ErrChanged
	}
	all := maps.Clone(w.state.services)
	maps.Copy(all, changed)
	maps.DeleteFunc(all, func(_ proxy.Service, ports []proxy.Port) bool { return len(ports) == 0 })
	return w.Sync(ctx, proxy.Tables{Settings: w.settings, Services: all})
}

// Intact implements proxy.Writer. It is cheap as long as nobody changes any table.
func (w *Writer) Intact(context.Context) (bool, error) {
	if w.state == nil {
		return false, nil
	}
	return w.intact()
}
