package allocation

import (
	"context"
	"errors"
	"fmt"
	"math/big"

	"github.com/keelson-dev/keelson/storage"
)

// change applies a change to the record and returns once it is stored or has failed. If no other caller is
// writing, it writes all pending changes as one batch, then hands over to the first caller that arrived meanwhile.
func (p *Ports) change(ctx context.Context, apply func(r *record) error) error {
	mine := &change{apply: apply, turn: make(chan bool, 1)}
	p.mu.Lock()
	p.queue = append(p.queue, mine)
	first := !p.writing
	p.writing = true
	p.mu.Unlock()
	if !first && !<-mine.turn {
		return mine.err
	}
	p.mu.Lock()
	batch := p.queue
	p.queue = nil
	p.mu.Unlock()
	p.write(ctx, batch)
	p.mu.Lock()
	p.writing = len(p.queue) > 0
	if p.writing {
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

// write applies a batch to the record and stores it. It outlives the context of the caller whose turn it is,
// since others depend on it.
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
			// Nothing confirmed that the cached record is current: another server may have removed the reason
			// for a refusal, or taken a port whose release here had no effect.
			p.known = nil
			continue
		}
		revision, err := p.swap(ctx, next, p.known.revision)
		switch {
		case err == nil:
			batch, p.known = refused, &record{next, next, revision} // the changes made may let them succeed
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

// swap stores the record in place of the one at the expected revision.
func (p *Ports) swap(ctx context.Context, bits *big.Int, expected int64) (int64, error) {
	value, err := p.encode(bits)
	if err != nil {
		return 0, err
	}
	return p.store.Update(ctx, portsKey, value, expected)
}

// applyAll returns the bits after all changes that succeed, those changes, and those that fail, with their
// errors set.
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

// fail sets the error of changes that were not made, as far as is known.
func fail(batch []*change, err error) {
	for _, c := range batch {
		c.err = err
	}
}
