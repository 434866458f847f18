// Package memory has a proxy.Writer that keeps the tables in memory and answers where packets go, and a proxy.Checker that
// keeps health checks. They are for tests and for simulated nodes.
//
// A Writer may be asked from many goroutines while another one writes.
package memory

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"sync"

	"github.com/keelson-dev/keelson/proxy"
)

// ErrUnsynced is the error of Update before the first Sync.
var ErrUnsynced = errors.New("the tables have to be written in full first")

// Writer keeps tables. Make one with New.
type Writer struct {
	mu     sync.RWMutex
	tables proxy.Tables
	claims map[key][]proxy.Claim // by address and by node port, in the order of services
}

var _ proxy.Writer = (*Writer)(nil)

// key is an address of a service, or a node port without an address.
type key struct {
	address netip.Addr
	node    uint16
	is6     bool
}

// New returns a Writer without tables, which passes all packets.
func New() *Writer { return &Writer{} }

// Sync implements proxy.Writer.
func (w *Writer) Sync(_ context.Context, tables proxy.Tables) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tables = proxy.Tables{Settings: tables.Settings, Services: map[proxy.Service][]proxy.Port{}}
	w.claims = map[key][]proxy.Claim{}
	for _, name := range slices.SortedFunc(maps.Keys(tables.Services), proxy.CompareServices) {
		w.put(name, tables.Services[name])
	}
	return nil
}

// Update implements proxy.Writer.
func (w *Writer) Update(_ context.Context, services map[proxy.Service][]proxy.Port) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.claims == nil {
		return ErrUnsynced
	}
	for name, ports := range services {
		w.put(name, ports)
	}
	return nil
}

// Intact implements proxy.Writer.
func (w *Writer) Intact(context.Context) (bool, error) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.claims != nil, nil
}

// put replaces a service.
func (w *Writer) put(name proxy.Service, ports []proxy.Port) {
	had := w.tables.Services[name]
	for i := range had {
		for _, k := range keys(&had[i]) {
			w.claims[k] = slices.DeleteFunc(w.claims[k], func(c proxy.Claim) bool { return c.Service == name })
			if len(w.claims[k]) == 0 {
				delete(w.claims, k)
			}
		}
	}
	delete(w.tables.Services, name)
	if len(ports) == 0 {
		return
	}
	w.tables.Services[name] = ports
	for i := range ports {
		for _, k := range keys(&ports[i]) {
			c := proxy.Claim{Service: name, Port: &ports[i]}
			at, _ := slices.BinarySearchFunc(w.claims[k], c, func(a, b proxy.Claim) int {
				if order := proxy.CompareServices(a.Service, b.Service); order != 0 {
					return order
				}
				return -1 // behind the service's other ports
			})
			w.claims[k] = slices.Insert(w.claims[k], at, c)
		}
	}
}

// keys are those by which packets for a port are found.
func keys(p *proxy.Port) []key {
	all := []key{{address: p.ClusterIP, is6: p.Is6()}}
	for _, a := range p.Addresses() {
		all = append(all, key{address: a, is6: p.Is6()})
	}
	if p.NodePort != 0 {
		all = append(all, key{node: p.NodePort, is6: p.Is6()})
	}
	return all
}

// Decide says what becomes of a packet, as proxy.Tables.Decide does but without looking at every service.
func (w *Writer) Decide(p proxy.Packet) proxy.Decision {
	w.mu.RLock()
	defer w.mu.RUnlock()
	is6 := p.To.Addr().Is6()
	claims := w.claims[key{address: p.To.Addr(), is6: is6}]
	if more := w.claims[key{node: p.To.Port(), is6: is6}]; p.ToHost && len(more) > 0 {
		claims = slices.Concat(claims, more)
		slices.SortStableFunc(claims, func(a, b proxy.Claim) int { return proxy.CompareServices(a.Service, b.Service) })
	}
	return proxy.Decide(w.tables.Settings, claims, p)
}

// Tables returns a copy of what is in effect.
func (w *Writer) Tables() proxy.Tables {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return proxy.Tables{Settings: w.tables.Settings, Services: maps.Clone(w.tables.Services)}
}
