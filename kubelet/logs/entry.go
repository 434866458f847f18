package logs

import (
	"bytes"
	"errors"
	"fmt"
	"time"
)

// Stream names an output stream of a container.
type Stream string

// The streams.
const (
	Stdout Stream = "stdout"
	Stderr Stream = "stderr"
)

// ErrFormat means that a line is not in the CRI log format.
var ErrFormat = errors.New("not a line of a CRI log")

// Entry is one line of a log file.
type Entry struct {
	Time   time.Time
	Stream Stream
	// Partial is set if the line of output continues in the next entry of the stream.
	Partial bool
	// Text is the output, including the line end unless it is partial. It aliases the parsed line.
	Text []byte
}

// Parse reads one line of a log file, with or without its line end. Its error is ErrFormat.
func Parse(line []byte) (Entry, error) {
	var e Entry
	at, rest, ok := bytes.Cut(line, []byte{' '})
	if !ok {
		return e, fmt.Errorf("%w: no stream", ErrFormat)
	}
	var err error
	if e.Time, err = time.Parse(time.RFC3339Nano, string(at)); err != nil {
		return Entry{}, fmt.Errorf("%w: time %q", ErrFormat, at)
	}
	stream, rest, ok := bytes.Cut(rest, []byte{' '})
	if !ok {
		return Entry{}, fmt.Errorf("%w: no tag", ErrFormat)
	}
	if e.Stream = Stream(stream); e.Stream != Stdout && e.Stream != Stderr {
		return Entry{}, fmt.Errorf("%w: stream %q", ErrFormat, stream)
	}
	tags, text, ok := bytes.Cut(rest, []byte{' '})
	if !ok {
		return Entry{}, fmt.Errorf("%w: no text", ErrFormat)
	}
	first, _, _ := bytes.Cut(tags, []byte{':'}) // the format allows for more tags
	if e.Partial = string(first) == "P"; e.Partial {
		text = bytes.TrimSuffix(text, []byte{'\n'})
	}
	e.Text = text
	return e, nil
}
