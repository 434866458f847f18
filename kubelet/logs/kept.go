package logs

import (
	"context"
	"errors"

	"github.com/keelson-dev/keelson/cri"
)

// Copy outputs a log that the runtime keeps itself, like Read. Options.Running is not used: the log knows when its container
// has ended.
func Copy(ctx context.Context, log cri.Log, o Options) error {
	w := &writer{options: o, left: -1}
	if o.Limit != nil {
		w.left = *o.Limit
	}
	err := w.present(ctx, log)
	if err == nil && o.Follow && w.left != 0 {
		err = w.follow(ctx, log)
	}
	if errors.Is(err, errLimit) {
		return nil
	}
	return err
}

// present outputs what there is: everything, or the last lines.
func (w *writer) present(ctx context.Context, log cri.Log) error {
	var last []cri.LogLine
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		lines := log.Next()
		switch {
		case len(lines) == 0:
			return w.lines(last)
		case w.options.Tail == nil:
			if err := w.lines(lines); err != nil {
				return err
			}
			continue
		}
		for _, l := range lines {
			if w.options.wanted(streamOf(l)) {
				last = append(last, l)
			}
		}
		last = last[max(0, int64(len(last))-*w.options.Tail):]
	}
}

// follow outputs what is written until the container has ended.
func (w *writer) follow(ctx context.Context, log cri.Log) error {
	for {
		if err := w.idle(); err != nil {
			return err
		}
		more, err := log.Wait(ctx)
		if err != nil || !more {
			return err
		}
		if err := w.lines(log.Next()); err != nil {
			return err
		}
	}
}

func (w *writer) lines(lines []cri.LogLine) error {
	for _, l := range lines {
		if err := w.entry(Entry{Time: l.At, Stream: streamOf(l), Text: append([]byte(l.Text), '\n')}); err != nil {
			return err
		}
	}
	return nil
}

func streamOf(l cri.LogLine) Stream {
	if l.Stderr {
		return Stderr
	}
	return Stdout
}
