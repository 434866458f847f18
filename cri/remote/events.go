package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"google.golang.org/grpc"
	v1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/cri/internal/wire"
)

// stream is one reader of events. Its goroutine lives until the stream breaks or is closed.
type stream struct {
	runtime *Runtime
	source  grpc.ServerStreamingClient[v1.ContainerEventResponse]
	life    context.Context // of the call: grpc needs it as long as the stream lives
	cancel  context.CancelFunc
	done    chan struct{} // closed when the goroutine has ended
	wake    chan struct{} // holds one token while there may be something to read

	mu      sync.Mutex
	pending []cri.Event
	err     error
	pods    map[string]cri.SandboxMetadata // by container, for events without one
}

// Events opens a stream of events from about now on: the runtime may begin a little later, and slightly older events
// may be delivered too. If the runtime has no events, this call or the first Next fails with cri.ErrUnsupported.
func (r *Runtime) Events(ctx context.Context) (cri.EventStream, error) {
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	undo := context.AfterFunc(ctx, cancel)
	source, err := r.runtime.GetContainerEvents(life, &v1.GetEventsRequest{})
	if err == nil {
		// A stream is accepted without an answer. The answer to a later call on the same connection means that the
		// runtime has received the request, though it may not have begun with it.
		_, err = r.runtime.Version(ctx, &v1.VersionRequest{})
	}
	if !undo() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		cancel()
		return nil, r.failed(ctx, err)
	}
	s := &stream{
		runtime: r, source: source, life: life, cancel: cancel,
		done: make(chan struct{}), wake: make(chan struct{}, 1), pods: map[string]cri.SandboxMetadata{},
	}
	go s.read()
	return s, nil
}

func (s *stream) read() {
	defer close(s.done)
	defer s.cancel()
	for {
		message, err := s.source.Recv()
		if errors.Is(err, io.EOF) {
			err = &unavailable{fmt.Errorf("the stream of events has ended: %w", err), s.runtime.endpoint}
		} else if err != nil {
			err = s.runtime.failed(context.WithoutCancel(s.life), err)
		}
		if s.add(message, err) {
			return
		}
	}
}

// add stores a message or the error that ended the stream, and reports whether the stream is over.
func (s *stream) add(message *v1.ContainerEventResponse, err error) (over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil:
		s.err = err
	case len(s.pending) >= s.runtime.buffer:
		s.err = cri.ErrEventsLost
	default:
		s.pending = append(s.pending, s.complete(wire.DecodeEvent(message)))
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return s.err != nil
}

// complete fills in the pod, which runtimes cannot report once its sandbox is gone. The caller must hold the lock.
func (s *stream) complete(e cri.Event) cri.Event {
	if e.Pod == (cri.SandboxMetadata{}) {
		e.Pod = s.pods[e.ID]
	} else {
		s.pods[e.ID] = e.Pod
	}
	if e.Type == cri.EventDeleted || len(s.pods) > ownersLimit {
		delete(s.pods, e.ID)
	}
	return e
}

// Next returns the events since the last call.
func (s *stream) Next(ctx context.Context) ([]cri.Event, error) {
	for {
		s.mu.Lock()
		events, err := s.pending, s.err
		s.pending = nil
		s.mu.Unlock()
		switch {
		case len(events) > 0:
			return events, nil
		case err != nil:
			return nil, err
		}
		select {
		case <-s.wake:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Close ends the stream.
func (s *stream) Close() {
	s.cancel()
	<-s.done
}
