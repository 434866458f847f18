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

// timeFormat is how times are shown: at a fixed width, so that lines can be sorted.
const timeFormat = "2006-01-02T15:04:05.000000000Z07:00"

// Options of a Read. The zero value reads all there is and shows none of it: set an output.
type Options struct {
	// Stdout and Stderr take what the container wrote; nil leaves that stream out. They may be the
	// same.
	Stdout, Stderr io.Writer
	// Tail is how many lines before the end are read; nil is all. A long line that is several
	// entries in the file counts once.
	Tail *int64
	// Since leaves out what was written before.
	Since time.Time
	// Limit is how many bytes are written at most; nil is no limit.
	Limit *int64
	// Timestamps writes before each line when it was.
	Timestamps bool
	// Follow goes on until the container has ended. It asks Running when there is nothing to read; an
	// error of it ends the reading. nil is for ever.
	Follow  bool
	Running func(ctx context.Context) (bool, error)
	// Idle is called while following, when all there is was written: outputs may buffer until then.
	Idle func() error
}

// Read writes the log at path as the options say. A log that is not there is fs.ErrNotExist. The end of the
// context ends the reading, with the context's error; an error of an output is returned as it is.
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

// wanted tells whether a stream is read.
func (o *Options) wanted(s Stream) bool {
	return s == Stdout && o.Stdout != nil || s == Stderr && o.Stderr != nil
}

// errLimit: as much was written as is to be.
var errLimit = errors.New("limit reached")

// writer writes entries as the options say.
type writer struct {
	options Options
	left    int64 // bytes; below 0: no limit
	// inside tells of a stream whether the last entry was partial: the next begins no line.
	inside map[Stream]bool
	buffer []byte
}

// write writes one line of a file. One that cannot be read is left out.
func (w *writer) write(line []byte) error {
	e, err := Parse(line)
	if err != nil {
		return nil //nolint:nilerr // a crash leaves half a line
	}
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

// file is one file of a log, read from where it is.
type file struct {
	io.Reader
	closer func() error
	info   fs.FileInfo
	lines  *bufio.Reader
	rest   []byte // of a line that has no end yet
}

func newFile(f *os.File, r io.Reader) (*file, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return &file{Reader: r, closer: f.Close, info: info, lines: bufio.NewReaderSize(r, 64<<10)}, nil
}

// copy writes all whole lines there are now. What is left of a last one is kept.
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

// finish writes a last line that has no end and gets none.
func (f *file) finish(w *writer) error {
	if len(f.rest) == 0 {
		return nil
	}
	defer func() { f.rest = nil }()
	return w.write(f.rest)
}
