package transfer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/internal/bulk"
)

// ErrNotEmpty: the target already holds records.
var ErrNotEmpty = errors.New("store is not empty")

// Copied is the progress of Copy, or its outcome.
type Copied struct {
	Revision int64 // of the source
	Records  int64 // number of records
	Bytes    int64 // of keys and values
	Newest   int64 // revision of the target at the end
	// Behind: the target began at a lower revision than the source's, so clients that followed the source may miss
	// changes.
	Behind bool
}

// CopyOptions tunes Copy; the zero value is ready to use.
type CopyOptions struct {
	// Prefix narrows the copy to keys that start with it.
	Prefix string
	// Revision is the state of the source to copy; 0 is the newest.
	Revision int64
	// Writers is how many records are written at the same time; 0 means 32.
	Writers int
	// TTL, if not nil, returns a record's time to live from now on; 0 makes it permanent. It takes effect if the target
	// is a storage.Lessor.
	TTL func(storage.Record) time.Duration
	// Progress, if not nil, is called from time to time with what has been written, one call at a time.
	Progress func(Copied)
}

const (
	defaultWriters = 32
	// progressEvery is the number of records between two calls of Progress.
	progressEvery = 256
)

// Copy fills an empty store with the records of another. When it fails, the target holds a part of them: empty it
// before another attempt. If writes overtake the history of the source, Copy fails with storage.ErrCompacted.
func Copy(ctx context.Context, to storage.Store, from storage.Reader, options CopyOptions) (Copied, error) {
	if err := bulk.Empty(ctx, to); errors.Is(err, storage.ErrExists) {
		return Copied{}, fmt.Errorf("%w: %w", ErrNotEmpty, err)
	} else if err != nil {
		return Copied{}, err
	}
	began, err := to.Revision(ctx)
	if err != nil {
		return Copied{}, err
	}
	revision := options.Revision
	if revision == 0 {
		if revision, err = from.Revision(ctx); err != nil {
			return Copied{}, err
		}
	}
	done := Copied{Revision: revision, Behind: began < revision}
	writers := options.Writers
	if writers <= 0 {
		writers = defaultWriters
	}
	filler := bulk.Filler{To: to, Writers: writers, TTL: options.TTL, Done: func(r storage.Record) {
		done.Records++
		done.Bytes += int64(len(r.Key) + len(r.Value))
		if options.Progress != nil && done.Records%progressEvery == 0 {
			options.Progress(done)
		}
	}}
	if err := filler.Fill(ctx, bulk.Records(ctx, from, options.Prefix, revision)); err != nil {
		return done, fmt.Errorf("%d records are copied, empty the target before another attempt: %w", done.Records, err)
	}
	if done.Newest, err = to.Revision(ctx); err != nil {
		return done, err
	}
	if options.Progress != nil {
		options.Progress(done)
	}
	return done, nil
}

// Side is one side of a comparison.
type Side struct {
	Store    storage.Reader // to compare
	Revision int64          // to read it at; 0 means the newest
}

// Difference is a key that is in one of two stores only, or in both with different values.
type Difference struct {
	Key  string // that differs
	Kind Kind
}

// Kind is how a key differs.
type Kind string

// The ways in which a key differs.
const (
	OnlyFirst  Kind = "only in the first"
	OnlySecond Kind = "only in the second"
	OtherValue Kind = "with different values"
)

// VerifyOptions tunes Verify; the zero value is ready to use.
type VerifyOptions struct {
	// Prefix narrows the comparison to keys that start with it.
	Prefix string
	// Most is how many differences are listed; 0 means 100. All are counted.
	Most int
	// Progress, if not nil, is called from time to time with what has been compared.
	Progress func(Verified)
}

// Verified is the progress of Verify, or its outcome.
type Verified struct {
	First, Second int64        // records
	Bytes         int64        // of keys and values that both have
	Different     int64        // number of differences
	Differences   []Difference // the first of them, in the order of keys
}

// Equal reports whether there are no differences.
func (v Verified) Equal() bool { return v.Different == 0 }

// Err returns a *DifferentError if there are differences.
func (v Verified) Err() error {
	if v.Equal() {
		return nil
	}
	return &DifferentError{v}
}

// DifferentError says how two stores differ.
type DifferentError struct{ Verified Verified }

// Error lists the first differences.
func (e *DifferentError) Error() string {
	v := e.Verified
	message := fmt.Sprintf("%d differences between %d and %d records", v.Different, v.First, v.Second)
	for i, d := range v.Differences {
		if i == 3 {
			return message + ", …"
		}
		message += fmt.Sprintf("%s %q %s", map[bool]string{true: ":", false: ","}[i == 0], d.Key, d.Kind)
	}
	return message
}

// Verify compares keys and values of two stores, but not revisions. Differences are not an error of Verify: see
// Verified.Err.
func Verify(ctx context.Context, first, second Side, options VerifyOptions) (Verified, error) {
	if options.Most <= 0 {
		options.Most = 100
	}
	a, stopA := iter.Pull2(bulk.Records(ctx, first.Store, options.Prefix, first.Revision))
	defer stopA()
	b, stopB := iter.Pull2(bulk.Records(ctx, second.Store, options.Prefix, second.Revision))
	defer stopB()
	var v Verified
	x, xErr, xMore := a()
	y, yErr, yMore := b()
	for steps := 1; xMore || yMore; steps++ {
		if xErr != nil {
			return v, fmt.Errorf("first store: %w", xErr)
		}
		if yErr != nil {
			return v, fmt.Errorf("second store: %w", yErr)
		}
		inFirst := xMore && (!yMore || x.Key <= y.Key)
		inSecond := yMore && (!xMore || y.Key <= x.Key)
		v.see(x, y, inFirst, inSecond, options.Most)
		if inFirst {
			x, xErr, xMore = a()
		}
		if inSecond {
			y, yErr, yMore = b()
		}
		if options.Progress != nil && (steps%progressEvery == 0 || !xMore && !yMore) {
			options.Progress(v)
		}
	}
	return v, nil
}

// see records a key that is in one of the stores or in both.
func (v *Verified) see(x, y storage.Record, inFirst, inSecond bool, most int) {
	difference := Difference{Key: x.Key}
	switch {
	case inFirst && inSecond:
		v.First++
		v.Second++
		if bytes.Equal(x.Value, y.Value) {
			v.Bytes += int64(len(x.Key) + len(x.Value))
			return
		}
		difference.Kind = OtherValue
	case inFirst:
		v.First++
		difference.Kind = OnlyFirst
	default:
		v.Second++
		difference.Key, difference.Kind = y.Key, OnlySecond
	}
	if v.Different++; len(v.Differences) < most {
		v.Differences = append(v.Differences, difference)
	}
}
