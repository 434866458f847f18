package allocation

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/registry/codec"
	"github.com/keelson-dev/keelson/storage"
)

// portsKey is upstream's key of the record of node ports.
const portsKey = "/registry/ranges/servicenodeports"

const (
	// writeTime bounds one change of the record, whoever waits for it.
	writeTime = 10 * time.Second
	// releaseTime is how long a port may be released after its owner was known. It is less than leakAge, so
	// that Repair and a late release never free a port twice.
	releaseTime = 75 * time.Second
)

// errLate: it is too late to release ports; Repair frees them if necessary.
var errLate = errors.New("too late to release ports")

// errPreempted: the record has changed since it was read.
var errPreempted = errors.New("node ports changed meanwhile")

// Store is the part of a storage.Store that Ports needs.
type Store interface {
	storage.Reader
	storage.Writer
	storage.Watcher
}

// PortError is the failure of one PortWish.
type PortError struct {
	Index int   // index of the wish
	Port  int   // 0 for a wish for any port
	Err   error // the reason
}

// Error returns upstream's message, which does not identify the wish.
func (e *PortError) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e *PortError) Unwrap() error { return e.Err }

// PortWish is a request for one port: Port, or any if that is 0, searching from Seed on.
type PortWish struct {
	Port int    // 0 is any
	Seed uint64 // where the search for a free port begins
}

// Ports is the record of allocated node ports, one bit each. Changes use compare-and-swap, so several servers
// may share it; concurrent changes in one process share one write.
type Ports struct {
	store Store
	ports PortRange

	mu      sync.Mutex
	queue   []*change // waiting for the next batch
	writing bool      // a caller is writing a batch

	// known is the cached record; only the caller that is writing uses it.
	known *record
}

// record is one state of the record.
type record struct {
	bits *big.Int
	// before holds the stored bits: within a batch, a port that one change frees may not be taken by another,
	// so that every port that changes owners is seen to be free in some state of the record.
	before   *big.Int
	revision int64
}

func (r *record) taken(at int) bool { return r.bits.Bit(at) == 1 || r.before.Bit(at) == 1 }

// change is one pending change of the record.
type change struct {
	apply func(r *record) error // changes the bits; the revision is 0 after another change of the batch
	err   error
	turn  chan bool // true: write the next batch; false: done
}

// NewPorts returns the record of node ports in a store. It reads nothing yet.
func NewPorts(store Store, ports PortRange) (*Ports, error) {
	if err := ports.Validate(); err != nil {
		return nil, err
	}
	return &Ports{store: store, ports: ports}, nil
}

// Range returns the range of ports.
func (p *Ports) Range() PortRange { return p.ports }

// Take allocates a port for each wish, all or none, and returns them in the order of the wishes. It fails with
// a *PortError that wraps ErrFull, ErrPortTaken or what is wrong with the port, and with ErrNotReady until Init
// has been called on this store by any server.
func (p *Ports) Take(ctx context.Context, wishes []PortWish) ([]int, error) {
	if len(wishes) == 0 {
		return nil, nil
	}
	var taken []int
	err := p.change(ctx, func(r *record) (err error) {
		taken, err = p.choose(r, wishes)
		return err
	})
	if err != nil {
		return nil, err
	}
	return taken, nil
}

// choose sets a bit for each wish: first for wishes for a certain port, since nothing else satisfies them.
func (p *Ports) choose(r *record, wishes []PortWish) ([]int, error) {
	taken := make([]int, len(wishes))
	for i, w := range wishes {
		if w.Port == 0 {
			continue
		}
		switch {
		case !p.ports.Contains(w.Port):
			return nil, &PortError{i, w.Port, fmt.Errorf("provided port is not in the valid range. The range of valid ports is %s", p.ports)}
		case r.taken(w.Port - p.ports.First):
			return nil, &PortError{i, w.Port, ErrPortTaken}
		}
		taken[i] = w.Port
		r.bits.SetBit(r.bits, w.Port-p.ports.First, 1)
	}
	for i, w := range wishes {
		if w.Port != 0 {
			continue
		}
		at, ok := p.free(r, w.Seed)
		if !ok {
			return nil, &PortError{i, 0, ErrFull}
		}
		taken[i] = p.ports.First + at
		r.bits.SetBit(r.bits, at, 1)
	}
	return taken, nil
}

// free finds an unset bit: in the upper band, then in the lower, each searched cyclically.
func (p *Ports) free(r *record, seed uint64) (int, bool) {
	static := p.ports.static()
	for _, band := range [][2]int{{static, p.ports.Size}, {0, static}} {
		size := band[1] - band[0]
		for i := range size {
			at := band[0] + (int(seed%uint64(size))+i)%size
			if !r.taken(at) {
				return at, true
			}
		}
	}
	return 0, false
}

// Try returns what Take might return, and allocates nothing. Like upstream's dry runs, it invents ports if any
// will do.
func (p *Ports) Try(ctx context.Context, wishes []PortWish) ([]int, error) {
	if len(wishes) == 0 {
		return nil, nil
	}
	r, err := p.read(ctx)
	if err != nil && !errors.Is(err, ErrNotReady) {
		return nil, err
	}
	tried := make([]int, 0, len(wishes))
	highest := 0
	for i, w := range wishes {
		port := w.Port
		switch {
		case port == 0 && len(tried) == 0:
			port = 1<<15 + 1
		case port == 0:
			port = highest + 1
		case r != nil && p.ports.Contains(port) && r.bits.Bit(port-p.ports.First) == 1, contains(tried, port):
			return nil, &PortError{i, port, ErrPortTaken}
		}
		tried = append(tried, port)
		highest = max(highest, port)
	}
	return tried, nil
}

// Release frees ports, unless it is too late: known is when the caller was known to own them. It ignores free
// ports and ports out of range.
func (p *Ports) Release(ctx context.Context, ports []int, known time.Time) error {
	if len(ports) == 0 {
		return nil
	}
	return p.change(ctx, func(r *record) error {
		// Checked after reading the record: a change between then and the write is a conflict.
		if time.Since(known) > releaseTime {
			return errLate
		}
		for _, port := range ports {
			if p.ports.Contains(port) {
				r.bits.SetBit(r.bits, port-p.ports.First, 0)
			}
		}
		return nil
	})
}

// Init creates the record, with the used ports taken, unless it exists.
func (p *Ports) Init(ctx context.Context, used []int) error {
	bits := new(big.Int)
	for _, port := range used {
		if p.ports.Contains(port) {
			bits.SetBit(bits, port-p.ports.First, 1)
		}
	}
	value, err := p.encode(bits)
	if err != nil {
		return err
	}
	if _, err = p.store.Create(ctx, portsKey, value); errors.Is(err, storage.ErrExists) {
		return nil
	}
	return err
}

// read returns the current record, or ErrNotReady.
func (p *Ports) read(ctx context.Context) (*record, error) {
	stored, err := p.store.Get(ctx, portsKey)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, ErrNotReady
	}
	if err != nil {
		return nil, fmt.Errorf("read node ports: %w", err)
	}
	bits, err := p.decode(stored.Value)
	return &record{bits, bits, stored.Revision}, err
}

// decode decodes a record. Of a record for another range, only the bits of ports in this range count.
func (p *Ports) decode(value []byte) (*big.Int, error) {
	var stored corev1.RangeAllocation
	if _, err := codec.Decode(value, &stored); err != nil {
		return nil, fmt.Errorf("record %s: %w", portsKey, err)
	}
	was, err := ParsePortRange(stored.Range)
	if err != nil {
		return nil, fmt.Errorf("record %s: %w", portsKey, err)
	}
	if len(stored.Data) > maxPort/8+1 {
		return nil, fmt.Errorf("record %s has %d bytes of bits, which is more than there are ports", portsKey, len(stored.Data))
	}
	all := new(big.Int).SetBytes(stored.Data)
	bits := new(big.Int)
	for i := range min(all.BitLen(), was.Size) {
		if port := was.First + i; all.Bit(i) == 1 && p.ports.Contains(port) {
			bits.SetBit(bits, port-p.ports.First, 1)
		}
	}
	return bits, nil
}

func (p *Ports) encode(bits *big.Int) ([]byte, error) {
	return codec.Stored(corev1.SchemeGroupVersion.WithKind("RangeAllocation"),
		&corev1.RangeAllocation{Range: p.ports.String(), Data: bits.Bytes()})
}

func contains(ports []int, port int) bool {
	for _, p := range ports {
		if p == port {
			return true
		}
	}
	return false
}

// Taken returns the allocated ports, sorted, or ErrNotReady.
func (p *Ports) Taken(ctx context.Context) ([]int, error) {
	r, err := p.read(ctx)
	if err != nil {
		return nil, err
	}
	var taken []int
	for i := range r.bits.BitLen() {
		if r.bits.Bit(i) == 1 {
			taken = append(taken, p.ports.First+i)
		}
	}
	return taken, nil
}
