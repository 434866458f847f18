package webhook

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/keelson-dev/keelson/apiserver/audit"
)

var (
	// ErrFull says that the buffer has no room for an event.
	ErrFull = errors.New("audit buffer queue blocked")
	// ErrEnded says that an event came after the end.
	ErrEnded = errors.New("audit backend shut down")
)

const (
	// attempts is how often a list is posted.
	attempts = 5
	// maxPosts is how many posts go on at once in mode Batch, with their pauses. Events for others wait in the buffer.
	maxPosts = 256
)

// Sink posts events. Make one with New, and run it with Run.
type Sink struct {
	o        Options
	throttle flowcontrol.RateLimiter // nil if there is none
	client   atomic.Pointer[client]
	lost     losses

	queue chan []byte  // encoded events, in mode Batch
	held  atomic.Int64 // bytes of events that wait or are being posted
	slots chan struct{}
	posts sync.WaitGroup
	base  func() context.Context // of posts
	stop  context.CancelFunc     // ends it

	mu     sync.RWMutex // guards ended, and that writes grows only before
	ended  bool
	writes sync.WaitGroup
}

var _ audit.Reporter = (*Sink)(nil)

// New returns a Sink that posts to config.Host, a URL. A post may take config.Timeout, or 30 s. It starts nothing: in mode Batch,
// events wait for Run.
func New(config *rest.Config, o Options) (*Sink, error) {
	o, err := o.orDefault()
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &Sink{o: o, lost: losses{log: o.Logger}, base: func() context.Context { return ctx }, stop: stop}
	if o.Mode == Batch {
		s.queue, s.slots = make(chan []byte, o.Batching.BufferSize), make(chan struct{}, maxPosts)
		if !o.Batching.NoThrottle {
			s.throttle = flowcontrol.NewTokenBucketRateLimiter(o.Batching.QPS, o.Batching.Burst)
		}
	}
	if err := s.Use(config); err != nil {
		stop()
		return nil, err
	}
	return s, nil
}

// Use has the Sink post by another configuration from now on, also what has failed before and is tried again. If that is
// invalid, it goes on with what it has.
func (s *Sink) Use(config *rest.Config) error {
	c, err := newClient(config)
	if err != nil {
		return err
	}
	if old := s.client.Swap(c); old != nil {
		old.close()
	}
	return nil
}

// Failures implements audit.Reporter.
func (s *Sink) Failures() map[string]int64 { return s.lost.all() }

// Write implements audit.Sink. In mode Batch it does not wait, and fails with ErrFull or ErrEnded. Otherwise it returns when the
// event has been posted, or with the error of the last attempt. An event that is too large is lost without an error.
func (s *Sink) Write(e *auditv1.Event) error {
	item, err := encode(e, s.o.Truncate)
	switch {
	case err != nil && s.o.Truncate != nil:
		s.lost.add("truncate", 1, err)
		return nil
	case err != nil:
		s.lost.add("webhook", 1, err)
		return err
	case !s.begin():
		s.lost.add("buffered", 1, ErrEnded)
		return ErrEnded
	}
	defer s.writes.Done()
	if s.o.Mode == Batch {
		return s.enqueue(item)
	}
	return s.send(s.base(), 1, list([][]byte{item}))
}

// begin counts a write, unless the Sink has ended.
func (s *Sink) begin() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.ended {
		return false
	}
	s.writes.Add(1)
	return true
}

func (s *Sink) enqueue(item []byte) error {
	size := int64(len(item))
	if s.held.Add(size) <= s.o.Batching.MaxBytes {
		select {
		case s.queue <- item:
			return nil
		default:
		}
	}
	s.held.Add(-size)
	s.lost.add("buffered", 1, ErrFull)
	return ErrFull
}

// send posts a list of n events, up to five times, and counts them as lost if that fails.
func (s *Sink) send(ctx context.Context, n int, list []byte) error {
	err := s.post(ctx, list)
	if err != nil {
		s.lost.add("webhook", n, err)
	}
	return err
}

func (s *Sink) post(ctx context.Context, body []byte) error {
	backoff := wait.Backoff{Duration: s.o.InitialBackoff, Factor: 1.5, Jitter: 0.2, Steps: attempts}
	for {
		err := s.client.Load().post(ctx, body)
		if err == nil || backoff.Steps == 1 {
			return err
		}
		pause := time.NewTimer(backoff.Step())
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return err
		}
	}
}
