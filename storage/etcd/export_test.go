package etcd

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/keelson-dev/keelson/storage"
)

// NewClock returns the methods of a clock.
func NewClock(request func(context.Context) (int64, error)) (read func(context.Context) (int64, error), end func()) {
	c := newClock(request)
	return c.read, c.close
}

// NewLeases returns the methods of leases.
func NewLeases(grant func(context.Context, time.Duration) (clientv3.LeaseID, error), now func() time.Time) (take func(context.Context, time.Duration) (clientv3.LeaseID, bool, error), drop func(clientv3.LeaseID)) {
	l := newLeases(grant, now)
	return l.take, l.drop
}

// Mapped returns the etcd key of a key, the key made of it again, and whether a list finds it.
func Mapped(options Options, key, prefix, after string) (inEtcd, back string, listed bool, err error) {
	k := keys{trim: options.Trim, prefix: options.Prefix}
	if inEtcd, err = k.encode(key); err != nil {
		return "", "", false, err
	}
	s := k.span(prefix, after)
	return inEtcd, k.decode([]byte(inEtcd)), !s.nothing() && inEtcd >= s.from && (s.end == toEnd || inEtcd < s.end), nil
}

// ClientConfig returns the clientv3 configuration for a Config.
func ClientConfig(c Config) (clientv3.Config, error) { return c.client() }

// TooLarge reports whether an error says that a request or an answer is too large for gRPC.
var TooLarge = isTooLargeMessage

// Limits are those of a store's streams.
func Limits(s *Store) (events int, bytes int64) { return s.limits.events, s.limits.bytes }

// Interval is the interval of a compaction.
func Interval(c *Compaction) time.Duration { return c.every }

// Stream is a stream that nothing fills.
type Stream struct{ s *stream }

// NewStream returns a stream after a revision, with its limits.
func NewStream(events int, bytes, after int64) Stream {
	return Stream{newStream(limits{events, bytes}, after)}
}

func (s Stream) Next(ctx context.Context) ([]storage.Event, error) { return s.s.Next(ctx) }
func (s Stream) Put(events []storage.Event) bool                   { return s.s.put(events) }
func (s Stream) Pass(revision int64)                               { s.s.pass(revision) }
func (s Stream) Want(revision int64)                               { s.s.want(revision) }
func (s Stream) Fail(err error)                                    { s.s.fail(err) }
func (s Stream) Standing() (at, wanted int64)                      { return s.s.standing() }

// Behind takes the token that says that the stream has not reached the wanted revision.
func (s Stream) Behind() bool {
	select {
	case <-s.s.behind:
		return true
	default:
		return false
	}
}

// Asker is an asker whose timer is driven by the test.
type Asker struct{ a *asker }

// NewAsker returns an asker for a stream.
func NewAsker(s Stream, request func(context.Context) error) Asker {
	return Asker{newAsker(s.s, request)}
}

func (a Asker) Timer() <-chan time.Time       { return a.a.timer.C }
func (a Asker) Soon()                         { a.a.soon() }
func (a Asker) Now(ctx context.Context) error { return a.a.now(ctx) }
func (a Asker) Stop()                         { a.a.stop() }
