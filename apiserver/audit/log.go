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

// Reporter is a Sink that counts and logs by itself what it does not store, also after Write has returned. Package webhook has one.
type Reporter interface {
	Sink
	// Failures returns the numbers of events that were not stored, by what lost them: a name as in upstream's label "plugin".
	Failures() map[string]int64
}

// Output is a further sink of a Log.
type Output struct {
	Sink Sink
	// Strict is Options.Strict, for this sink.
	Strict bool
}

// Options of a Log. The zero value is usable.
type Options struct {
	// Strict makes requests fail if their first event cannot be stored, as upstream's mode blocking-strict does. Otherwise
	// such failures are counted and logged.
	Strict bool
	// Also are further sinks, which get each event in turn, whatever came of the others.
	Also []Output
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
	policy    atomic.Pointer[Policy]
	outputs   []Output
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
	Events   int64            // given to the sinks
	Failures int64            // failures to store one, but for those of Reporters
	Plugins  map[string]int64 // the Failures of Reporters
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
	l := &Log{
		outputs: append([]Output{{sink, o.Strict}}, o.Also...), maxObject: o.MaxObject, log: o.Logger,
		anonymous: allowance{budget: o.Strangers.orDefault()},
	}
	l.policy.Store(p)
	return l
}

// Use has requests that begin from now on be recorded by another policy.
func (l *Log) Use(p *Policy) { l.policy.Store(p) }

// Stats returns the counters.
func (l *Log) Stats() Stats {
	s := &l.stats
	var plugins map[string]int64
	for _, o := range l.outputs {
		if r, ok := o.Sink.(Reporter); ok {
			if plugins == nil {
				plugins = map[string]int64{}
			}
			for plugin, n := range r.Failures() {
				plugins[plugin] += n
			}
		}
	}
	return Stats{
		Plugins: plugins,
		Events:  s.events.Load(), Failures: s.failures.Load(), Rejected: s.rejected.Load(), LeftOut: s.leftOut.Load(),
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

// Flush reports to the sinks what was left out and has not been reported. It does not return errors of Reporters.
func (l *Log) Flush() error {
	if e := l.anonymous.account(true); e != nil {
		_, err := l.give(e)
		return err
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
		_, _ = l.give(note) // a failure is counted, and not this request's
	}
	if refused, _ := l.give(e); refused && e.Stage == auditv1.StageRequestReceived {
		l.stats.rejected.Add(1)
		return ErrNotStored
	}
	return nil // a failure was counted
}

// give gives an event to all sinks. refused tells that one failed that is strict; failures are those of sinks that do not report
// them by themselves.
func (l *Log) give(e *auditv1.Event) (refused bool, failures error) {
	l.stats.events.Add(1)
	for _, o := range l.outputs {
		err := o.Sink.Write(e)
		if err == nil {
			continue
		}
		refused = refused || o.Strict
		if _, ok := o.Sink.(Reporter); !ok {
			failures = errors.Join(failures, err)
			l.stats.failures.Add(1)
			l.log.Error("audit event not stored", "audit-id", string(e.AuditID), "stage", string(e.Stage), "error", err)
		}
	}
	return refused, failures
}
