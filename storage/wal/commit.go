package wal

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/keelson-dev/keelson/storage/internal/disk"
	"github.com/keelson-dev/keelson/storage/internal/timeline"
)

// maxBatchBytes is the size at which a batch takes no further write. A batch is one frame.
const maxBatchBytes = 4 << 20

// request is one write on its way to the log.
type request struct {
	write  timeline.Write
	answer chan answer // capacity 1
}

type answer struct {
	revision int64
	err      error
}

// queue holds the writes that wait for the committer.
type queue struct {
	mu      sync.Mutex
	waiting []*request
	closed  error         // why requests are refused
	ready   chan struct{} // capacity 1: something changed
}

func (q *queue) put(r *request) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed != nil {
		return q.closed
	}
	q.waiting = append(q.waiting, r)
	q.signal()
	return nil
}

// withdraw removes a request whose caller has gone, unless the committer already has it.
func (q *queue) withdraw(r *request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := slices.Index(q.waiting, r); i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
	}
}

// refuse fails every later put; the first reason is kept.
func (q *queue) refuse(why error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed == nil {
		q.closed = why
	}
	q.signal()
}

// failure returns ErrFailed with its cause, if that is why puts fail.
func (q *queue) failure() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if errors.Is(q.closed, ErrFailed) {
		return q.closed
	}
	return nil
}

func (q *queue) signal() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// take blocks until there are requests and returns the next batch, or nothing once the queue is closed and empty. It
// yields first: writers that were just answered can then add their next writes to this sync instead of waiting for it.
func (q *queue) take() []*request {
	for before, now := -1, q.length(); now > before; before, now = now, q.length() {
		runtime.Gosched()
	}
	for {
		if batch, more := q.poll(); len(batch) > 0 || !more {
			return batch
		}
		<-q.ready
	}
}

func (q *queue) length() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting)
}

func (q *queue) poll() (batch []*request, more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n, size := 0, 0
	for n < len(q.waiting) && size < maxBatchBytes {
		w := q.waiting[n].write
		if size += len(w.Key) + len(w.Value) + operationBytes; n > 0 && size > MaxRecordBytes {
			break
		}
		n++
	}
	batch = slices.Clone(q.waiting[:n])
	q.waiting = slices.Delete(q.waiting, 0, n)
	return batch, q.closed == nil || len(batch) > 0
}

// write passes a write to the committer and waits for its outcome.
func (s *Store) write(ctx context.Context, w timeline.Write) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if err := checkSize(w.Key, w.Value); err != nil {
		return 0, err
	}
	r := &request{write: w, answer: make(chan answer, 1)}
	if err := s.queue.put(r); err != nil {
		return 0, err
	}
	select {
	case a := <-r.answer:
		return a.revision, a.err
	case <-ctx.Done():
		s.queue.withdraw(r)
		return 0, ctx.Err()
	}
}

// commitAll is the committer: the one goroutine that writes to the log. While it waits for the disk, the next batch
// gathers in the queue. It ends after Close.
func (s *Store) commitAll() {
	defer close(s.committed)
	for {
		batch := s.queue.take()
		if len(batch) == 0 {
			break
		}
		s.commit(batch)
		if err := s.compact(); err != nil {
			_ = s.fail(err) // acknowledged writes are safe
		}
	}
	s.closeErr = errors.Join(s.compactor.stop(), s.endLog())
}

// commit decides the writes of a batch, logs the accepted ones with one sync, makes them visible and answers all.
func (s *Store) commit(batch []*request) {
	answers := make([]answer, len(batch))
	draft := s.timeline.Draft()
	for i, r := range batch {
		answers[i].revision, answers[i].err = draft.Add(r.write)
	}
	var err error
	if len(draft.Changes()) > 0 {
		err = s.commitDraft(draft)
	}
	for i, r := range batch {
		if err != nil {
			answers[i] = answer{err: err} // even refusals may rest on changes that were not committed
		}
		r.answer <- answers[i]
	}
}

func (s *Store) commitDraft(draft *timeline.Draft) error {
	if s.compactor.failure != nil {
		return s.compactor.failure
	}
	if err := s.log.append(draft.Changes()); err != nil {
		return s.fail(err)
	}
	s.timeline.Commit(draft)
	return nil
}

// fail makes the store refuse further writes.
func (s *Store) fail(err error) error {
	err = fmt.Errorf("%w: %w", ErrFailed, err)
	s.logger.Error("the store takes no more writes", "error", err)
	s.compactor.failure = err
	s.queue.refuse(err)
	return err
}

// endLog marks the log as closed properly, so that the next Open can distinguish damage at its end from a crash.
func (s *Store) endLog() error {
	if s.compactor.failure != nil {
		_ = s.log.file.Close() // the first error counts
		return s.compactor.failure
	}
	revision, _ := s.timeline.Snapshot()
	err := s.log.mark(closedFrame, revision+1)
	return errors.Join(err, s.log.file.Close())
}

// segment is the log file that is written to.
type segment struct {
	file   disk.File
	seed   uint32
	size   int64 // all of it synced
	buffer []byte
}

// append makes changes durable.
func (s *segment) append(changes []timeline.Change) error {
	return s.appendFrame(func(b []byte) []byte { return appendBatch(b, changes) })
}

// mark appends a frame without changes.
func (s *segment) mark(tag byte, next int64) error {
	return s.appendFrame(func(b []byte) []byte { return appendMark(b, tag, next) })
}

func (s *segment) appendFrame(payload func([]byte) []byte) error {
	frame := payload(openFrame(s.buffer))
	closeFrame(frame, s.seed, s.size)
	_, err := s.file.Write(frame)
	if err == nil {
		err = s.file.Sync()
	}
	if err != nil {
		// These bytes were not acknowledged. Remove them if the disk lets us: otherwise the next Open may find them in
		// the operating system's cache although they never reached the disk.
		_ = s.file.Truncate(s.size)
		return err
	}
	s.size += int64(len(frame))
	if s.buffer = frame; cap(frame) > 1<<20 {
		s.buffer = nil
	}
	return nil
}
