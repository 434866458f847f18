// Package memory is a networkpolicy.Writer that keeps the tables in memory and answers what becomes of packets. It is for
// tests and for simulated nodes.
//
// A Writer may be asked from many goroutines while another one writes.
package memory

import (
	"context"
	"errors"
	"sync"

	"github.com/keelson-dev/keelson/networkpolicy"
)

// ErrUnsynced is the error of Update before the first Sync.
var ErrUnsynced = errors.New("the tables have to be written in full first")

// Writer keeps tables. Make one with New.
type Writer struct {
	mu     sync.RWMutex
	synced bool
	tables networkpolicy.Tables
}

var _ networkpolicy.Writer = (*Writer)(nil)

// New returns a Writer without tables, which allows everything.
func New() *Writer { return &Writer{} }

// Sync implements networkpolicy.Writer.
func (w *Writer) Sync(_ context.Context, tables networkpolicy.Tables) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tables, w.synced = tables.Clone(), true
	return nil
}

// Update implements networkpolicy.Writer.
func (w *Writer) Update(_ context.Context, changes networkpolicy.Changes) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.synced {
		return ErrUnsynced
	}
	w.tables.Apply(changes)
	return nil
}

// Intact implements networkpolicy.Writer.
func (w *Writer) Intact(context.Context) (bool, error) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.synced, nil
}

// Decide says what becomes of a packet.
func (w *Writer) Decide(p networkpolicy.Packet) networkpolicy.Decision {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.tables.Decide(p)
}

// Tables returns a copy of what is in effect.
func (w *Writer) Tables() networkpolicy.Tables {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.tables.Clone()
}
