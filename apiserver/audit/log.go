package audit

import (
	"errors"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/keelson-dev/keelson/authz"
)

// ErrNotStored says that an event could not be stored, and that the Log is strict.
var ErrNotStored = errors.New("failed to store audit event")

// Sink keeps events.
type Sink interface {
	// Write stores an event. It must not keep the event, which the caller changes afterwards. An error means that it may
	// not be stored. Write is called concurrently, and requests wait for it.
	Write(e *auditv1.Event) error
}

// SinkFunc is a Sink made of a function.
type SinkFunc func(e *auditv1.Event) error

// Write calls f.
func (f SinkFunc) Write(e *auditv1.Event) error { return f(e) }

// Options of a Log. The zero value is usable.
type Options struct {
	// Strict makes requests fail if their first event cannot be stored, as upstream's mode blocking-strict does. Otherwise
	// such failures are counted and logged.
	Strict bool
	// MaxObject bounds each recorded object, in bytes of JSON; 0 is 1 MiB. A larger one is left
	// out, and the event says so in the annotation "audit.k8s.io/truncated".
	MaxObject int
	// Strangers bounds what is recorded of unauthenticated requests. What exceeds it is counted, and reported by an event
	// with the annotation "audit.keelson.dev/left-out".
	Strangers Budget
	// Logger gets events that could not be stored. nil discards.
	Logger *slog.Logger
}

// defaultMaxObject bounds recorded objects.
const defaultMaxObject = 1 << 20

// Log records requests by a policy.
type Log struct {
	policy    *Policy
	sink      Sink
	strict    bool
	maxObject int
	log       *slog.Logger
	anonymous allowance
	stats     counters
}

type counters struct {
	events, failures, rejected, leftOut    atomic.Int64
	none, metadata, request, requestAnswer atomic.Int64
}

// Stats are the counters of a Log.
type Stats struct {
	Events   int64            // given to the sink
	Failures int64            // of these, not stored
	Rejected int64            // requests that a strict Log made fail
	LeftOut  int64            // events of unauthenticated requests beyond their budget
	Levels   map[string]int64 // requests, by the level at which the policy wants them
}

// New returns a log. It starts nothing. The caller closes the sink, after the last request and Flush.
func New(p *Policy, sink Sink, o Options) *Log {
	if o.MaxObject <= 0 {
		o.MaxObject = defaultMaxObject
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Log{
		policy: p, sink: sink, strict: o.Strict, maxObject: o.MaxObject, log: o.Logger, anonymous: allowance{budget: o.Strangers.orDefault()},
	}
}

// Stats returns the counters.
func (l *Log) Stats() Stats {
	s := &l.stats
	return Stats{
		Events: s.events.Load(), Failures: s.failures.Load(), Rejected: s.rejected.Load(), LeftOut: s.leftOut.Load(),
		Levels: map[string]int64{
			string(auditv1.LevelNone): s.none.Load(), string(auditv1.LevelMetadata): s.metadata.Load(),
			string(auditv1.LevelRequest): s.request.Load(), string(auditv1.LevelRequestResponse): s.requestAnswer.Load(),
		},
	}
}

func (l *Log) count(level auditv1.Level) {
	switch level {
	case auditv1.LevelMetadata:
		l.stats.metadata.Add(1)
	case auditv1.LevelRequest:
		l.stats.request.Add(1)
	case auditv1.LevelRequestResponse:
		l.stats.requestAnswer.Add(1)
	default:
		l.stats.none.Add(1)
	}
}

// Request is what is known of a request when it begins.
type Request struct {
	// HTTP is the request itself.
	HTTP *http.Request
	// Attributes say who asks for what. User is nil if the request was not authenticated.
	Attributes authz.Attributes
	// ID is the request's Audit-Id.
	ID string
	// Received is when the request was received.
	Received time.Time
}

// Open returns the record of a request of which nothing is known yet. It keeps annotations until Record.Begin decides
// whether the request is recorded.
func (l *Log) Open() *Record { return &Record{log: l} }

// Flush reports to the sink what was left out and has not been reported.
func (l *Log) Flush() error {
	if e := l.anonymous.account(true); e != nil {
		return l.give(e)
	}
	return nil
}

// write gives an event to the sink, unless the budget bounds it and is used up.
func (l *Log) write(e *auditv1.Event, bounded bool) error {
	if bounded && !l.anonymous.spend(e) {
		l.stats.leftOut.Add(1)
		return nil
	}
	if note := l.anonymous.account(false); note != nil {
		_ = l.give(note) // a failure is counted, and not this request's
	}
	err := l.give(e)
	if err != nil && l.strict && e.Stage == auditv1.StageRequestReceived {
		l.stats.rejected.Add(1)
		return ErrNotStored
	}
	return nil // a failure was counted
}

func (l *Log) give(e *auditv1.Event) error {
	l.stats.events.Add(1)
	err := l.sink.Write(e)
	if err != nil {
		l.stats.failures.Add(1)
		l.log.Error("audit event not stored", "audit-id", string(e.AuditID), "stage", string(e.Stage), "error", err)
	}
	return err
}
