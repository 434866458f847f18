package registry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/keelson-dev/keelson/storage"
)

// ReservationTime is how long a write may take from its reservation to its commit; a write that takes longer
// fails. A reservation without an object after that time was left by a crash, or by a write with an unknown
// outcome, and may be collected.
const ReservationTime = time.Minute

// settleTime bounds the settling of a write whose client is gone.
const settleTime = 10 * time.Second

// Reservation is a write, or a removal, for which Rules.Reserve takes and gives back what objects hold beside
// their own record.
type Reservation[T Object] struct {
	// Access reads and writes the objects that record what is taken.
	Access
	// Object is what is about to be stored; Reserve writes into it what it took. It is the zero T when Old is
	// about to be removed.
	Object T
	// Old is the stored object, shared and not to be changed; it is the zero T in a create.
	Old T
	// DryRun writes must not take anything, but show what they might get. Removals are never dry runs.
	DryRun bool
}

// Settle gives back what a reservation took, or what its object no longer needs, once the outcome of the write
// is known. It is called once; anything it fails to give back is left to be collected.
type Settle func(ctx context.Context, o Outcome)

// Outcome is the outcome of a write.
type Outcome int

// The outcomes. NotWritten is certain: the object was refused, or another write came first. Unknown means that
// either is possible, such as after the context ended: both what it took and what it would have given up may be
// in use.
const (
	NotWritten Outcome = iota
	Written
	Unknown
)

// String returns the outcome in a word or two.
func (o Outcome) String() string {
	switch o {
	case NotWritten:
		return "not written"
	case Written:
		return "written"
	case Unknown:
		return "unknown"
	}
	return fmt.Sprintf("Outcome(%d)", int(o))
}

// reservation is that of one write, from Reserve to Settle.
type reservation struct {
	settle  Settle // nil if there is nothing to settle
	outcome Outcome
	cancel  context.CancelFunc
}

// reserve reserves what obj needs beyond its record; old is nil in a create, obj is nil in a removal. The context it
// returns bounds the write.
func (r *Resource) reserve(ctx context.Context, obj, old Object, dryRun bool) (context.Context, *reservation, error) {
	if r.Rules.Reserve == nil {
		return ctx, &reservation{}, nil
	}
	held, cancel := context.WithTimeout(ctx, ReservationTime)
	settle, err := r.Rules.Reserve(held, Reservation[Object]{Access: r.registry.Access(), Object: obj, Old: old, DryRun: dryRun})
	if err != nil {
		cancel()
		return ctx, nil, err
	}
	return held, &reservation{settle: settle, cancel: cancel}, nil
}

// write stores or removes the object with do, and remembers the outcome. It refuses to begin after the
// reservation's time.
func (h *reservation) write(ctx context.Context, do func() (int64, error)) (int64, error) {
	if h.cancel != nil && ctx.Err() != nil {
		return 0, ctx.Err()
	}
	revision, err := do()
	switch {
	case err == nil:
		h.outcome = Written
	case !refusedByStore(err):
		h.outcome = Unknown
	}
	return revision, err
}

// end settles the reservation, once. It is deferred, so that it runs even if a plugin panics.
func (h *reservation) end(ctx context.Context) {
	if h.cancel == nil {
		return
	}
	h.cancel()
	h.cancel = nil
	if h.settle == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	h.settle(ctx, h.outcome)
}

// refusedByStore reports whether err is certain evidence that nothing was written.
func refusedByStore(err error) bool {
	for _, known := range []error{
		storage.ErrExists, storage.ErrConflict, storage.ErrNotFound, storage.ErrEmptyKey, storage.ErrTooLarge,
	} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// after tells Rules.After what was stored; obj is nil in a removal, old in a create.
func (r *Resource) after(ctx context.Context, obj, old *Item) {
	if r.Rules.After == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	r.Rules.After(ctx, obj.object(), old.object())
}

// object returns the object of an item that may be nil.
func (i *Item) object() Object {
	if i == nil {
		return nil
	}
	return i.Object
}

// eraseAfter erases the type of Effects.After.
func eraseAfter[T Object](f func(context.Context, T, T)) func(context.Context, Object, Object) {
	if f == nil {
		return nil
	}
	return func(ctx context.Context, obj, old Object) {
		typed, _ := obj.(T)
		before, _ := old.(T)
		f(ctx, typed, before)
	}
}

// eraseReserve erases the type of Rules.Reserve.
func eraseReserve[T Object](f func(context.Context, Reservation[T]) (Settle, error)) func(context.Context, Reservation[Object]) (Settle, error) {
	if f == nil {
		return nil
	}
	return func(ctx context.Context, r Reservation[Object]) (Settle, error) {
		typed := Reservation[T]{Access: r.Access, DryRun: r.DryRun}
		if r.Object != nil {
			typed.Object = r.Object.(T)
		}
		if r.Old != nil {
			typed.Old = r.Old.(T)
		}
		return f(ctx, typed)
	}
}
