package logs

import (
	"bytes"
	"errors"
	"io"
)

// chunk is how much is read at once from the end of a file.
const chunk = 64 << 10

// ends reports whether a line of a file ends a line of output on a wanted stream.
func ends(line []byte, wanted func(Stream) bool) bool {
	stream, partial, ok := peek(line)
	return ok && !partial && wanted(stream)
}

// peek reads the stream and tag at the beginning of a line.
func peek(line []byte) (s Stream, partial, ok bool) {
	_, rest, _ := bytes.Cut(line, []byte{' '})
	stream, rest, _ := bytes.Cut(rest, []byte{' '})
	tags, _, ok := bytes.Cut(rest, []byte{' '}) // fails if an earlier cut failed
	first, _, _ := bytes.Cut(tags, []byte{':'})
	return Stream(stream), string(first) == "P", ok
}

// tail finds where the last n lines of output begin in a file of that size, and how many there are if the file has
// fewer. It reads backwards, and no more than it needs.
func tail(r io.ReaderAt, size, n int64, wanted func(Stream) bool) (at, found int64, err error) {
	b := backwards{r: r, at: size}
	first := true
	for {
		start, line, err := b.line()
		if errors.Is(err, io.EOF) {
			return 0, found, nil
		}
		if err != nil {
			return 0, 0, err
		}
		stream, partial, ok := peek(line)
		switch {
		case !ok || !wanted(stream):
			continue
		case partial && first:
			found++ // the line being written
		case !partial:
			if found == n {
				return start + int64(len(line)), found, nil
			}
			found++
		}
		first = false
		if n == 0 {
			return size, 0, nil
		}
	}
}

// backwards reads lines from the end of a file.
type backwards struct {
	r   io.ReaderAt
	at  int64  // offset of buf in the file
	buf []byte // read but not yet returned
}

// line returns the line before the last one returned, with its line end, and its offset. Text after the last line end
// of the file is left out.
func (b *backwards) line() (start int64, line []byte, err error) {
	searched := 0 // bytes at buf's end that hold no line end except the line's own
	for {
		end := bytes.LastIndexByte(b.buf, '\n')
		if end < 0 && b.at == 0 {
			return 0, nil, io.EOF
		}
		if end >= 0 {
			head := b.buf[:max(end-searched, 0)]
			if begin := bytes.LastIndexByte(head, '\n'); begin >= 0 || b.at == 0 {
				line = b.buf[begin+1 : end+1]
				start = b.at + int64(begin) + 1
				b.buf = b.buf[:begin+1]
				return start, line, nil
			}
			searched = end
		}
		if err := b.more(); err != nil {
			return 0, nil, err
		}
	}
}

// more reads the chunk before the buffer.
func (b *backwards) more() error {
	size := min(b.at, chunk)
	grown := make([]byte, size, size+int64(len(b.buf)))
	if _, err := b.r.ReadAt(grown, b.at-size); err != nil {
		return err
	}
	b.buf, b.at = append(grown, b.buf...), b.at-size
	return nil
}
