package snapshot

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/keelson-dev/keelson/storage"
)

// Check reads a snapshot to its end and describes it, or returns a *FileError that says why it cannot be used.
func Check(ctx context.Context, file io.ReaderAt, size int64) (Info, error) {
	return read(ctx, file, size, func(storage.Record, place) error { return nil })
}

// place is where a record's encoding is, and its checksum.
type place struct {
	offset int64
	length uint32
	sum    uint32
}

// read calls use for every record in order. Nothing of a record is kept. The end of the file has been checked only when
// read returns: callers that need a complete file read it twice.
func read(ctx context.Context, file io.ReaderAt, size int64, use func(storage.Record, place) error) (Info, error) {
	digest := sha256.New()
	source := bufio.NewReaderSize(io.NewSectionReader(file, 0, size), 256<<10)
	r := &reader{source: io.TeeReader(source, digest), digest: digest, left: size}
	head, err := r.take(int(min(size, headBytes)))
	if err != nil {
		return Info{}, err
	}
	if r.info.Revision, r.seed, err = decodeHead(head); err != nil {
		return Info{}, err
	}
	for {
		if err := ctx.Err(); err != nil {
			return Info{}, err
		}
		tag, err := r.take(1)
		switch {
		case err != nil:
			return Info{}, err
		case tag[0] == endTag:
			return r.info, r.end()
		case tag[0] != chunkTag:
			return Info{}, r.damaged(r.offset-1, "neither a chunk nor the end begins here")
		}
		if err := r.chunk(use); err != nil {
			return Info{}, err
		}
	}
}

// reader decodes a snapshot.
type reader struct {
	source io.Reader
	digest hash.Hash
	offset int64
	left   int64
	seed   uint32
	last   string // key
	info   Info
	buffer []byte
}

func (r *reader) damaged(offset int64, reason string) error {
	return &FileError{offset, reason, ErrDamaged}
}

// take reads n bytes, which are valid until the next call.
func (r *reader) take(n int) ([]byte, error) {
	if int64(n) > r.left {
		return nil, r.damaged(r.offset+r.left, "the file is cut off")
	}
	if cap(r.buffer) < n {
		r.buffer = make([]byte, n)
	}
	b := r.buffer[:n]
	_, err := io.ReadFull(r.source, b)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, r.damaged(r.offset, "the file is cut off")
	}
	if err != nil {
		return nil, fmt.Errorf("read snapshot at byte %d: %w", r.offset, err)
	}
	r.offset += int64(n)
	r.left -= int64(n)
	return b, nil
}

func (r *reader) chunk(use func(storage.Record, place) error) error {
	start := r.offset - 1
	rest, err := r.take(chunkHeadBytes - 1)
	if err != nil {
		return err
	}
	h := decodeChunkHead(append([]byte{chunkTag}, rest...))
	if h.length > maxPayload || h.count == 0 {
		return r.damaged(start, fmt.Sprintf("a chunk of %d bytes with %d records is not possible", h.length, h.count))
	}
	payload, err := r.take(int(h.length))
	if err != nil {
		return err
	}
	if h.sum != h.sumOf(r.seed, start, payload) {
		return r.damaged(start, "the chunk does not match its checksum")
	}
	at := start + chunkHeadBytes
	for range h.count {
		record, length, ok := decodeRecord(payload)
		if !ok || record.Key <= r.last || record.Revision > r.info.Revision {
			return r.damaged(at, fmt.Sprintf("what follows %q is no record", r.last))
		}
		if err := use(record, place{at, uint32(length), checksum(payload[:length])}); err != nil {
			return err
		}
		r.last = record.Key
		r.info.Records++
		r.info.Bytes += int64(length - recordBytes)
		payload = payload[length:]
		at += int64(length)
	}
	if len(payload) > 0 {
		return r.damaged(at, "the chunk is longer than its records")
	}
	return nil
}

func (r *reader) end() error {
	start := r.offset - 1
	got, err := r.take(16)
	if err != nil {
		return err
	}
	if want := encodeEnd(r.info.Records, r.info.Bytes)[1:]; !bytes.Equal(got, want) {
		return r.damaged(start, fmt.Sprintf("the end does not speak of the %d records before it", r.info.Records))
	}
	want := r.digest.Sum(nil)
	got, err = r.take(sha256.Size)
	if err != nil {
		return err
	}
	if !bytes.Equal(got, want) {
		return r.damaged(start, "the file does not match its checksum")
	}
	if r.left > 0 {
		return r.damaged(r.offset, fmt.Sprintf("%d bytes follow the end", r.left))
	}
	return nil
}
