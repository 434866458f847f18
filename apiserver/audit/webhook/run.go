package webhook

import (
	"context"
	"sync"
	"time"
)

// Run posts events until ctx ends, which must be after the last request. From then on it takes no more, and posts what it has,
// for at most Options.FlushTimeout; what is left then is lost. It returns nil, and must be called once. In blocking modes, where
// requests post, it only ends them.
func (s *Sink) Run(ctx context.Context) error {
	over := make(chan struct{})
	var deadline sync.WaitGroup
	deadline.Go(func() { s.stopLate(ctx, over) })
	if s.o.Mode == Batch {
		for ctx.Err() == nil {
			s.dispatch(s.collect(ctx))
		}
	}
	<-ctx.Done()
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.writes.Wait()
	for rest := s.rest(); len(rest) > 0; rest = s.rest() {
		s.dispatch(rest)
	}
	s.posts.Wait()
	close(over)
	deadline.Wait()
	s.stop()
	s.client.Load().close()
	s.lost.tell()
	return nil
}

// stopLate stops all posts when FlushTimeout has passed since ctx ended, unless it is over before.
func (s *Sink) stopLate(ctx context.Context, over <-chan struct{}) {
	<-ctx.Done() // which is before it is over
	timer := time.NewTimer(s.o.FlushTimeout)
	defer timer.Stop()
	select {
	case <-timer.C:
		s.stop()
	case <-over:
	}
}

// collect returns the next events to post together: when they are enough, when MaxWait is over, or when ctx ends.
func (s *Sink) collect(ctx context.Context) [][]byte {
	wait := time.NewTimer(s.o.Batching.MaxWait)
	defer wait.Stop()
	var items [][]byte
	for len(items) < s.o.Batching.MaxSize {
		select {
		case item := <-s.queue:
			items = append(items, item)
		case <-wait.C:
			return items
		case <-ctx.Done():
			return items
		}
	}
	return items
}

// rest returns the next events to post together, without waiting for more.
func (s *Sink) rest() [][]byte {
	var items [][]byte
	for len(items) < s.o.Batching.MaxSize {
		select {
		case item := <-s.queue:
			items = append(items, item)
		default:
			return items
		}
	}
	return items
}

// dispatch begins to post items when the throttle allows it.
func (s *Sink) dispatch(items [][]byte) {
	var limit int64
	if s.o.Truncate != nil {
		limit = s.o.Truncate.MaxBatchSize
	}
	ctx := s.base()
	for _, part := range split(items, limit) {
		n, size, body := len(part), bytes(part), list(part)
		if err := s.admit(ctx); err != nil {
			s.held.Add(-size)
			s.lost.add("webhook", n, err)
			continue
		}
		s.posts.Go(func() {
			_ = s.send(ctx, n, body) // it has counted what it lost
			s.held.Add(-size)
			<-s.slots
		})
	}
}

// admit waits until a post may begin, and takes one of the slots.
func (s *Sink) admit(ctx context.Context) error {
	if s.throttle != nil {
		if err := s.throttle.Wait(ctx); err != nil {
			return err
		}
	}
	select {
	case s.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
