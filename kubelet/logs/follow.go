package logs

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// checkPeriod is how often an idle follower checks whether the container has ended and whether the log was rotated.
	checkPeriod = 500 * time.Millisecond
	// pollPeriod is how often it looks for new text without file notifications.
	pollPeriod = 100 * time.Millisecond
)

// follow writes what is appended to the log until the container has ended.
func (f *files) follow(ctx context.Context, w *writer) error {
	changes := watch(filepath.Dir(f.path))
	defer changes.close()
	for {
		// Check first, so that everything written before the container ended is still read.
		running, err := w.running(ctx)
		if err != nil {
			return err
		}
		for {
			moved, err := f.advance(ctx, w)
			if err != nil {
				return err
			}
			if !moved {
				break
			}
		}
		if !running {
			return f.last(w)
		}
		if err := f.await(ctx, w, changes); err != nil {
			return err
		}
	}
}

// last writes what is left when the container has ended.
func (f *files) last(w *writer) error {
	if f.current == nil {
		return nil
	}
	return f.current.finish(w)
}

func (w *writer) idle() error {
	if w.options.Idle == nil {
		return nil
	}
	return w.options.Idle()
}

// running asks whether the container still runs.
func (w *writer) running(ctx context.Context) (bool, error) {
	if w.options.Running == nil {
		return true, nil
	}
	return w.options.Running(ctx)
}

// advance writes what there is, and moves to the next file if this one was rotated.
func (f *files) advance(ctx context.Context, w *writer) (moved bool, err error) {
	if f.current == nil { // in the middle of a rotation
		if f.current, err = openPlain(f.path); err != nil {
			return false, ignore(err)
		}
		return true, nil
	}
	next := f.successor()
	if err := f.current.copy(ctx, w); err != nil || next == "" {
		return false, err
	}
	opened, err := openOlder(next)
	if err != nil {
		return false, ignore(err)
	}
	if err := f.current.finish(w); err != nil {
		_ = opened.closer()
		return false, err
	}
	f.become(opened)
	return true, nil
}

// ignore drops the error for a missing file.
func ignore(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// successor is the file after the current one, once that was rotated and is no longer written; otherwise it is empty. A
// runtime keeps writing to the old file until it has opened the new one; text in the new one shows that it has.
func (f *files) successor() string {
	info, err := os.Stat(f.path)
	if err != nil || os.SameFile(info, f.current.info) {
		return ""
	}
	older, err := Rotated(f.path)
	if err != nil {
		return ""
	}
	for i := len(older) - 2; i >= 0; i-- {
		if f.current.is(older[i]) {
			return older[i+1]
		}
	}
	if info.Size() == 0 && time.Since(info.ModTime()) < checkPeriod {
		return ""
	}
	return f.path
}

// await waits until there may be something to read or a check is due.
func (f *files) await(ctx context.Context, w *writer, changes *changes) error {
	check := time.NewTimer(checkPeriod)
	defer check.Stop()
	period := changes.period()
	poll := time.NewTicker(period)
	defer poll.Stop()
	for {
		if err := w.idle(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-check.C:
			return nil
		case _, ok := <-changes.events:
			if !ok {
				changes.lost()
			}
		case <-poll.C:
		}
		if f.current == nil {
			return nil
		}
		if err := f.current.copy(ctx, w); err != nil {
			return err
		}
	}
}

// changes watches a directory, if the kernel can.
type changes struct {
	watcher *fsnotify.Watcher
	events  <-chan fsnotify.Event
}

func watch(dir string) *changes {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return &changes{} // the number of watches per user is limited
	}
	if err := watcher.Add(dir); err != nil {
		_ = watcher.Close()
		return &changes{}
	}
	return &changes{watcher, watcher.Events}
}

func (c *changes) period() time.Duration {
	if c.watcher == nil {
		return pollPeriod
	}
	return checkPeriod
}

func (c *changes) lost() { c.events = nil }

func (c *changes) close() {
	if c.watcher != nil {
		_ = c.watcher.Close() // no longer needed
	}
}
