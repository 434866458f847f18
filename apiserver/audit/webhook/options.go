package webhook

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"time"
)

// Mode says whether requests wait for their events to be posted.
type Mode string

// Modes. In BlockingStrict a request fails whose first event cannot be posted: audit.Output.Strict, or audit.Options.Strict.
const (
	Batch          Mode = "batch"
	Blocking       Mode = "blocking"
	BlockingStrict Mode = "blocking-strict"
)

// Modes returns all modes.
func Modes() []Mode { return []Mode{Batch, Blocking, BlockingStrict} }

// Options of a Sink. The zero value has upstream's defaults.
type Options struct {
	// Mode is Batch if empty.
	Mode Mode
	// Batching is for mode Batch.
	Batching Batching
	// Truncate bounds the size of events and of posts; nil does not.
	Truncate *Truncate
	// InitialBackoff is the pause before a failed post is tried again; later pauses are each half as long again, and all are up to
	// a fifth longer, at random. 0 is 10 s.
	InitialBackoff time.Duration
	// FlushTimeout is how long Run goes on when its context has ended, to post what was not yet. 0 is 10 s.
	FlushTimeout time.Duration
	// Logger is told of events that are lost. nil discards.
	Logger *slog.Logger
}

// Batching says how events are collected. The zero value has upstream's defaults.
type Batching struct {
	// BufferSize is how many events wait at most. 0 is 10,000.
	BufferSize int
	// MaxBytes bounds all events that wait or are being posted, in bytes of JSON. 0 is 100 MiB.
	MaxBytes int64
	// MaxSize is how many events a post has at most. 0 is 400.
	MaxSize int
	// MaxWait is how long events are collected for a post of less than MaxSize. 0 is 30 s.
	MaxWait time.Duration
	// QPS is how many posts are begun in a second, in the long run, and Burst how many at once. 0 is 10, and 15.
	QPS   float32
	Burst int
	// NoThrottle ignores both.
	NoThrottle bool
}

// Truncate bounds sizes. The zero value has upstream's defaults.
type Truncate struct {
	// MaxEventSize is the size of an event, in bytes of JSON, above which its objects are left out; it then has the annotation
	// "audit.k8s.io/truncated". If it still is larger, it is lost. 0 is 100 KiB.
	MaxEventSize int64
	// MaxBatchSize is how large a post becomes at most, in bytes of events. 0 is 10 MiB.
	MaxBatchSize int64
}

func (o Options) orDefault() (Options, error) {
	o.Mode = cmp.Or(o.Mode, Batch)
	if !slices.Contains(Modes(), o.Mode) {
		return o, fmt.Errorf("audit webhook: mode %q: choose from %q", o.Mode, Modes())
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.InitialBackoff = cmp.Or(o.InitialBackoff, 10*time.Second)
	o.FlushTimeout = cmp.Or(o.FlushTimeout, 10*time.Second)
	b := &o.Batching
	b.BufferSize, b.MaxBytes, b.MaxSize = cmp.Or(b.BufferSize, 10000), cmp.Or(b.MaxBytes, 100<<20), cmp.Or(b.MaxSize, 400)
	b.MaxWait, b.QPS, b.Burst = cmp.Or(b.MaxWait, 30*time.Second), cmp.Or(b.QPS, 10), cmp.Or(b.Burst, 15)
	if min(int64(b.BufferSize), b.MaxBytes, int64(b.MaxSize), int64(b.MaxWait), int64(b.Burst), int64(o.InitialBackoff), int64(o.FlushTimeout)) < 0 || b.QPS < 0 {
		return o, fmt.Errorf("audit webhook: negative values in %+v", o)
	}
	if o.Truncate != nil {
		t := Truncate{cmp.Or(o.Truncate.MaxEventSize, 100<<10), cmp.Or(o.Truncate.MaxBatchSize, 10<<20)}
		if t.MaxEventSize < 0 || t.MaxBatchSize < t.MaxEventSize {
			return o, fmt.Errorf("audit webhook: %+v: posts must be as large as events, at least", t)
		}
		o.Truncate = &t
	}
	return o, nil
}
