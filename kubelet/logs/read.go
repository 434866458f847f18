package logs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
)

// timeFormat is the format of timestamps: fixed in width, so that lines can be sorted.
const timeFormat = "2006-01-02T15:04:05.000000000Z07:00"

// Options configures Read. The zero value reads everything but outputs nothing: set Stdout or Stderr.
type Options struct {
	// Stdout and Stderr receive the container's output; nil omits that stream. They may be the same.
	Stdout, Stderr io.Writer
	// Tail is the number of lines to read before the end; nil is all. A long line that spans several entries counts
	// once.
	Tail *int64
	// Since omits everything written before it.
	Since time.Time
	// Limit is the maximum number of bytes to output; nil means no limit.
	Limit *int64
	// Timestamps prefixes each line with its time.
	Timestamps bool
	// Follow continues until the container has ended. It calls Running when there is nothing to read, and stops on an
	// error of it; without Running it continues forever.
	Follow  bool
	Running func(ctx context.Context) (bool, error)
	// Idle is called while following, when everything has been output: outputs may buffer until then.
	Idle func() error
}

// Read outputs the log at path according to the options. A missing log is fs.ErrNotExist. When the context ends, Read
// returns the context's error; errors of an output are returned unchanged.
func Read(ctx context.Context, path string, o Options) error {
	w := &writer{options: o, left: -1}
	if o.Limit != nil {
		w.left = *o.Limit
	}
	files, err := open(path)
	if err != nil {
		return err
	}
	defer files.close()
	if o.Tail != nil {
		err = files.seek(*o.Tail, o.wanted)
		if err != nil {
			return err
		}
	}
	for files.next() {
		err := files.current.copy(ctx, w)
		if errors.Is(err, errLimit) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	if !o.Follow || w.left == 0 {
		return nil
	}
	err = files.follow(ctx, w)
	if errors.Is(err, errLimit) {
		return nil
	}
	return err
}

// wanted reports whether a stream is read.
func (o *Options) wanted(s Stream) bool {
	return s == Stdout && o.Stdout != nil || s == Stderr && o.Stderr != nil
}

// errLimit means that Limit is reached.
var errLimit = errors.New("limit reached")

// writer outputs entries according to the options.
type writer struct {
	options Options
	left    int64 // bytes; below 0: no limit
	// inside is set for streams whose last entry was partial, so that the next does not begin a line.
	inside map[Stream]bool
	buffer []byte
}

// write outputs one line of a file. Malformed lines are skipped.
func (w *writer) write(line []byte) error {
	e, err := Parse(line)
	if err != nil {
		return nil //nolint:nilerr // a crash leaves half a line
	}
	return w.entry(e)
}

func (w *writer) entry(e Entry) error {
	to := w.options.Stdout
	if e.Stream == Stderr {
		to = w.options.Stderr
	}
	begins := !w.inside[e.Stream]
	if w.inside == nil {
		w.inside = map[Stream]bool{}
	}
	w.inside[e.Stream] = e.Partial
	if to == nil || e.Time.Before(w.options.Since) {
		return nil
	}
	text := e.Text
	if w.options.Timestamps && begins {
		w.buffer = append(e.Time.AppendFormat(w.buffer[:0], timeFormat), ' ')
		w.buffer = append(w.buffer, text...)
		text = w.buffer
	}
	if w.left >= 0 {
		text = text[:min(int64(len(text)), w.left)]
	}
	if _, err := to.Write(text); err != nil {
		return fmt.Errorf("write log: %w", err)
	}
	if w.left >= 0 {
		if w.left -= int64(len(text)); w.left == 0 {
			return errLimit
		}
	}
	return nil
}

// file is one file of a log, read from its current position.
type file struct {
	io.Reader
	closer func() error
	info   fs.FileInfo
	lines  *bufio.Reader
	rest   []byte // of an unfinished line
}

func newFile(f *os.File, r io.Reader) (*file, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return &file{Reader: r, closer: f.Close, info: info, lines: bufio.NewReaderSize(r, 64<<10)}, nil
}

// copy outputs all complete lines present now. It keeps the rest of an unfinished one.
func (f *file) copy(ctx context.Context, w *writer) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		part, err := f.lines.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull) || errors.Is(err, io.EOF) && len(part) > 0:
			f.rest = append(f.rest, part...)
			continue
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read log: %w", err)
		}
		if len(f.rest) > 0 {
			f.rest = append(f.rest, part...)
			part = f.rest
		}
		err = w.write(part)
		f.rest = f.rest[:0]
		if err != nil {
			return err
		}
	}
}

// finish outputs a last line without a line end.
func (f *file) finish(w *writer) error {
	if len(f.rest) == 0 {
		return nil
	}
	defer func() { f.rest = nil }()
	return w.write(f.rest)
}
