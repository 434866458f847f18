package allocation

import (
	"context"
	"errors"
	"fmt"
	"math/big"

	"github.com/keelson-dev/keelson/storage"
)

// change applies a change to the record and returns when it is stored, or why it is not. Who
// finds nobody at work leads: it writes all the changes that wait as one, then hands over to the
// first of those that came meanwhile.
func (p *Ports) change(ctx context.Context, apply func(r *record) error) error {
	mine := &change{apply: apply, turn: make(chan bool, 1)}
	p.mu.Lock()
	p.queue = append(p.queue, mine)
	lead := !p.led
	p.led = true
	p.mu.Unlock()
	if !lead && !<-mine.turn {
		return mine.err
	}
	p.mu.Lock()
	batch := p.queue
	p.queue = nil
	p.mu.Unlock()
	p.write(ctx, batch)
	p.mu.Lock()
	p.led = len(p.queue) > 0
	if p.led {
		p.queue[0].turn <- true
	}
	p.mu.Unlock()
	for _, c := range batch {
		if c != mine {
			c.turn <- false
		}
	}
	return mine.err
}

// write stores what a batch makes of the record. It does not end with the context of the one
// whose turn it is, for others depend on it.
func (p *Ports) write(ctx context.Context, batch []*change) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTime)
	defer cancel()
	for {
		fresh := p.known == nil
		if fresh {
			var err error
			if p.known, err = p.read(ctx); err != nil {
				p.known = nil
				fail(batch, err)
				return
			}
		}
		next, made, refused := applyAll(p.known, batch)
		if next.Cmp(p.known.bits) == 0 {
			if fresh {
				return
			}
			// No write shows that the record is still as known: what refuses a change may be gone by now, and
			// another server may have taken what was free already when it was released here.
			p.known = nil
			continue
		}
		revision, err := p.swap(ctx, next, p.known.revision)
		switch {
		case err == nil:
			batch, p.known = refused, &record{next, next, revision} // what was made may help them
			if len(batch) == 0 {
				return
			}
		case errors.Is(err, storage.ErrConflict) || errors.Is(err, storage.ErrNotFound):
			p.known = nil
		default:
			p.known = nil
			fail(made, fmt.Errorf("write node ports: %w", err))
			return
		}
	}
}

// swap stores the record in place of the one of the expected revision.
func (p *Ports) swap(ctx context.Context, bits *big.Int, expected int64) (int64, error) {
	value, err := p.encode(bits)
	if err != nil {
		return 0, err
	}
	return p.store.Update(ctx, portsKey, value, expected)
}

// applyAll returns the bits after all changes that can be made, those changes, and those that
// cannot, which know why.
func applyAll(from *record, batch []*change) (bits *big.Int, made, refused []*change) {
	now := record{from.bits, from.bits, from.revision}
	for _, c := range batch {
		try := record{new(big.Int).Set(now.bits), from.bits, now.revision}
		if c.err = c.apply(&try); c.err != nil {
			refused = append(refused, c)
			continue
		}
		made = append(made, c)
		if try.bits.Cmp(now.bits) != 0 {
			now = record{bits: try.bits}
		}
	}
	return now.bits, made, refused
}

// fail tells changes that they were not made, as far as is known.
func fail(batch []*change, err error) {
	for _, c := range batch {
		c.err = err
	}
}
