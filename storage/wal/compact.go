package wal

import (
	"errors"
	"iter"

	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/internal/disk"
)

const (
	defaultCompactBytes = 16 << 20

	// snapshotFrameBytes is about how much of a snapshot one frame holds.
	snapshotFrameBytes = 1 << 20

	// backlog is how many times the compaction threshold the new log may reach before writers wait for the running
	// snapshot.
	backlog = 2
)

var errStopped = errors.New("stopped")

// compactor replaces old logs by snapshots. It belongs to the committer, except for writing the snapshot, which has a
// goroutine of its own.
type compactor struct {
	minimum       int64
	logBytes      int64 // of complete logs since the last snapshot, without the current one
	snapshotBytes int64
	running       *snapshotting
	failure       error // after which nothing is written any more
}

// snapshotting is one running snapshot.
type snapshotting struct {
	replaces int64 // bytes of log
	cancel   chan struct{}
	done     chan struct{} // closed when it has ended; then the other fields may be read
	size     int64
	err      error
}

func newCompactor(r recovery, minimum int64) compactor {
	if minimum <= 0 {
		minimum = defaultCompactBytes
	}
	return compactor{minimum: minimum, logBytes: r.logBytes - r.lastSize, snapshotBytes: r.snapshotBytes}
}

// compact starts a snapshot when the log has grown enough, and finishes one that is complete.
func (s *Store) compact() error {
	c := &s.compactor
	if c.failure != nil {
		return nil //nolint:nilerr // writers get the error
	}
	due := max(c.minimum, c.snapshotBytes)
	if c.running != nil {
		if c.logBytes+s.log.size-c.running.replaces > backlog*due {
			<-c.running.done
		}
		select {
		case <-c.running.done:
			if err := c.finish(); err != nil {
				return err
			}
		default:
			return nil
		}
	}
	if c.logBytes+s.log.size < due {
		return nil
	}
	revision, records := s.timeline.Snapshot()
	if err := s.rotate(revision); err != nil {
		return err
	}
	running := &snapshotting{replaces: c.logBytes, cancel: make(chan struct{}), done: make(chan struct{})}
	c.running = running
	h := header{snapshotKind(), revision, s.identity}
	go func() {
		defer close(running.done)
		running.size, running.err = writeSnapshot(s.dir, h, records, running.cancel)
		if running.err == nil {
			running.err = removeBefore(s.dir, revision)
			s.logger.Debug("wrote a snapshot", "revision", revision, "bytes", running.size, "replacing", running.replaces)
		}
	}()
	return nil
}

// finish takes over the outcome of a completed snapshot.
func (c *compactor) finish() error {
	done := c.running
	c.running = nil
	if done.err != nil {
		return done.err
	}
	c.logBytes -= done.replaces
	c.snapshotBytes = done.size
	return nil
}

// stop ends the running snapshot, if there is one, and waits for it.
func (c *compactor) stop() error {
	if c.running == nil {
		return nil
	}
	close(c.running.cancel)
	<-c.running.done
	if err := c.finish(); !errors.Is(err, errStopped) {
		return err
	}
	return nil
}

// rotate starts a new log after a revision. The old log records it after the new one is durable and before anything is
// written to it: so the loss of either is noticed.
func (s *Store) rotate(revision int64) error {
	h := header{logKind(), revision, s.identity}
	file, err := createFile(s.dir, logName(revision), h.encode())
	if err != nil {
		return err
	}
	if err = s.dir.Sync(); err == nil {
		err = s.log.mark(nextFrame, revision+1)
	}
	if err != nil {
		_ = file.Close() // the first error counts
		return err
	}
	old := s.log
	s.log = segment{file: file, seed: h.seed(), size: headerSize, buffer: old.buffer}
	s.compactor.logBytes += old.size
	return old.file.Close()
}

// writeSnapshot makes a snapshot file, durably, and returns its size.
func writeSnapshot(dir disk.Dir, h header, records iter.Seq[storage.Record], cancel <-chan struct{}) (int64, error) {
	name := snapshotName(h.revision)
	file, err := dir.Create(name + tmpSuffix)
	if err != nil {
		return 0, err
	}
	w := snapshotWriter{file: file, seed: h.seed()}
	err = w.writeAll(h, records, cancel)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return 0, err
	}
	if err := dir.Rename(name+tmpSuffix, name); err != nil {
		return 0, err
	}
	return w.size, dir.Sync()
}

// emptySnapshot is the content of a snapshot without records, at the revision of a log.
func emptySnapshot(h header) []byte {
	h.kind = snapshotKind()
	frame := appendEnd(openFrame(nil), 0)
	closeFrame(frame, h.seed(), headerSize)
	return append(h.encode(), frame...)
}

type snapshotWriter struct {
	file  disk.File
	seed  uint32
	size  int64
	frame []byte
}

func (w *snapshotWriter) writeAll(h header, records iter.Seq[storage.Record], cancel <-chan struct{}) error {
	n, err := w.file.Write(h.encode())
	w.size = int64(n)
	if err != nil {
		return err
	}
	var count int64
	w.frame = append(openFrame(w.frame), recordsFrame)
	empty := len(w.frame)
	for record := range records {
		if len(w.frame) > empty && len(w.frame)+len(record.Key)+len(record.Value) > snapshotFrameBytes {
			select {
			case <-cancel:
				return errStopped
			default:
			}
			if err := w.flush(); err != nil {
				return err
			}
			w.frame = append(openFrame(w.frame), recordsFrame)
		}
		w.frame = appendRecord(w.frame, record)
		count++
	}
	if len(w.frame) > empty {
		if err := w.flush(); err != nil {
			return err
		}
	}
	w.frame = appendEnd(openFrame(w.frame), count)
	return w.flush()
}

func (w *snapshotWriter) flush() error {
	closeFrame(w.frame, w.seed, w.size)
	n, err := w.file.Write(w.frame)
	w.size += int64(n)
	return err
}

// removeBefore removes what a durable snapshot has replaced. If a crash brings some of it back,
// the next Open removes it.
func removeBefore(dir disk.Dir, snapshot int64) error {
	l, err := readLayout(dir)
	if err != nil {
		return err
	}
	l.temporary = nil // the committer may be creating a log
	for _, name := range stale(l, snapshot) {
		if err := dir.Remove(name); err != nil {
			return err
		}
	}
	return nil
}
