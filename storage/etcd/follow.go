package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/keelson-dev/keelson/internal/pause"
	"github.com/keelson-dev/keelson/storage"
)

// Watch implements storage.Watcher. The context counts only until Watch returns.
func (s *Store) Watch(ctx context.Context, prefix string, after int64) (storage.Stream, error) {
	op := fmt.Sprintf("watch %q after %d", prefix, after)
	if s.isClosed() {
		return nil, storage.ErrClosed
	}
	if err := s.checkHistory(ctx, op, after); err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(context.Background())
	st := newStream(s.limits, after)
	st.cancel = cancel
	st.leave = func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.streams, st)
	}
	opened := make(chan error, 1)
	f := &follower{store: s, stream: st, span: s.keys.span(prefix, ""), op: op, opened: opened}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		cancel()
		return nil, storage.ErrClosed
	}
	s.streams[st] = struct{}{}
	st.want(s.newest)
	go func() {
		defer close(st.done)
		f.run(running)
	}()
	s.mu.Unlock()
	select {
	case err := <-opened:
		if err != nil {
			st.Close()
			return nil, s.failed(ctx, op, err)
		}
		return st, nil
	case <-ctx.Done():
		st.Close()
		return nil, s.failed(ctx, op, ctx.Err())
	}
}

// checkHistory fails if the history after a revision is compacted or still to come: etcd would report the former late
// and wait for the latter.
func (s *Store) checkHistory(ctx context.Context, op string, after int64) error {
	if after < 0 {
		return fmt.Errorf("%s: %w", op, storage.ErrCompacted)
	}
	now, err := s.Revision(ctx)
	switch {
	case err != nil:
		return err
	case after > now:
		return fmt.Errorf("%s: %w: the newest is %d", op, storage.ErrFutureRevision, now)
	case after == now:
		return nil
	}
	// After compaction to a revision, etcd still has the changes of that one. To agree with Oldest, the store asks for
	// the revision before them.
	_, err = s.client.Get(clientv3.WithRequireLeader(ctx), s.probeKey(), clientv3.WithRev(max(after, first)), clientv3.WithCountOnly())
	if err != nil {
		return s.failed(ctx, op, err)
	}
	return nil
}

// follower feeds a stream with the changes in a span of keys.
type follower struct {
	store  *Store
	stream *stream
	span   span
	op     string
	opened chan<- error // receives the outcome of the first watch
	ready  bool         // whether it was sent
}

const (
	reopenFirst = 20 * time.Millisecond
	reopenMost  = 2 * time.Second
)

// run watches until the context ends or the stream cannot go on. clientv3 handles lost connections by itself; this loop
// handles watches that end, because a member has lost its leader for example.
func (f *follower) run(ctx context.Context) {
	wait := reopenFirst
	for {
		before := f.stream.next()
		err := f.watch(ctx)
		switch {
		case ctx.Err() != nil:
			f.tell(ctx.Err()) // the canceller has set the stream's error
			return
		case !isPassing(err):
			f.tell(err)
			f.stream.fail(f.store.failed(ctx, f.op, err))
			return
		}
		if f.stream.next() > before {
			wait = reopenFirst
		}
		f.store.log.Info("watch is opened anew", "watch", f.op, "next", f.stream.next(), "error", err)
		for {
			if pause.For(ctx, wait) != nil {
				break
			}
			wait = min(2*wait, reopenMost)
			now, err := f.store.readRevision(ctx) // from a working member, with a valid token
			if err == nil && now+1 < f.stream.next() {
				f.stream.fail(fmt.Errorf("%s: etcd went back to %d: %w", f.op, now, storage.ErrCompacted))
				return
			}
			if err == nil || !isPassing(err) {
				break
			}
		}
	}
}

// tell lets Watch return, with the outcome.
func (f *follower) tell(err error) {
	if !f.ready {
		f.ready = true
		f.opened <- err
	}
}

// isPassing reports whether a retry may succeed. It may, unless etcd refuses for good.
func isPassing(err error) bool {
	switch {
	case errors.Is(err, storage.ErrCompacted), errors.Is(err, rpctypes.ErrCompacted),
		errors.Is(err, rpctypes.ErrPermissionDenied), errors.Is(err, rpctypes.ErrUserEmpty), errors.Is(err, rpctypes.ErrAuthFailed):
		return false
	}
	return true
}

var errWatchEnded = errors.New("the watch ended")

// watch opens a watch on a gRPC stream of its own: progress is requested per gRPC stream, and trouble with one does not
// affect another.
func (f *follower) watch(ctx context.Context) error {
	watcher := clientv3.NewWatcher(f.store.client)
	defer func() { _ = watcher.Close() }() // its error is why the watch ended, which is known
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	if f.span.nothing() {
		f.tell(nil)
		return f.idle(ctx)
	}
	// Watch returns once etcd has registered the watch.
	responses := watcher.Watch(ctx, f.span.from, clientv3.WithRange(f.span.end), clientv3.WithRev(f.stream.next()),
		clientv3.WithPrevKV(), clientv3.WithFragment(), clientv3.WithProgressNotify(), clientv3.WithCreatedNotify())
	ask := newAsker(f.stream, watcher.RequestProgress)
	defer ask.stop()
	for {
		select {
		case response, ok := <-responses:
			if !ok {
				return errWatchEnded
			}
			if err := f.take(response); err != nil {
				return err
			}
			f.tell(nil)
		case <-f.stream.behind:
			ask.soon()
		case <-ask.timer.C:
			if err := ask.now(ctx); err != nil {
				return err
			}
		}
	}
}

// idle serves a stream to which no key belongs.
func (f *follower) idle(ctx context.Context) error {
	for {
		select {
		case <-f.stream.behind:
			_, wanted := f.stream.standing()
			f.stream.pass(wanted)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (f *follower) take(response clientv3.WatchResponse) error {
	if err := response.Err(); err != nil {
		return err
	}
	if response.IsProgressNotify() {
		f.stream.pass(response.Header.Revision)
		return nil
	}
	events := make([]storage.Event, 0, len(response.Events))
	for _, e := range response.Events {
		event := storage.Event{Type: storage.Put, Key: f.store.keys.decode(e.Kv.Key), Revision: e.Kv.ModRevision}
		if e.PrevKv != nil {
			event.Prev = value(e.PrevKv.Value)
		}
		if e.Type == clientv3.EventTypeDelete {
			event.Type = storage.Delete
		} else {
			event.Value = value(e.Kv.Value)
		}
		events = append(events, event)
	}
	if len(events) > 0 && !f.stream.put(events) {
		return storage.ErrCompacted
	}
	return nil
}
