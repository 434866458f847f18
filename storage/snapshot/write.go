package snapshot

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"
	"os"

	"github.com/keelson-dev/keelson/internal/atomicfile"
	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/internal/bulk"
)

// Info describes a snapshot, or the part of it that is written or read so far.
type Info struct {
	Revision int64 // of the store that it was taken from
	Records  int64 // number of records
	Bytes    int64 // of keys and values
}

// ahead is how many revisions a store may have advanced after its snapshot. Its replacement begins above them.
const ahead = 1_000_000_000

// FirstRevision is where a store must begin that replaces the original one: above every revision that the original can
// have reached since.
func (i Info) FirstRevision() int64 {
	if i.Revision > math.MaxInt64-ahead {
		return math.MaxInt64
	}
	return i.Revision + ahead
}

// WriteOptions tunes Write; the zero value is ready to use.
type WriteOptions struct {
	// Prefix narrows the snapshot to keys that start with it.
	Prefix string
	// Revision is the state to write; 0 is the newest.
	Revision int64
	// Progress, if not nil, is called from time to time with what has been written so far.
	Progress func(Info)
}

// Write writes a snapshot of a store at one revision. After a failure, what it has written is useless.
func Write(ctx context.Context, w io.Writer, from storage.Reader, options WriteOptions) (Info, error) {
	out := &writer{out: w, digest: sha256.New()}
	begun := false
	for page, err := range bulk.Pages(ctx, from, options.Prefix, options.Revision) {
		switch {
		case errors.Is(err, storage.ErrCompacted) && begun:
			return Info{}, fmt.Errorf("more was written than the store keeps history, before the snapshot was complete; keep more, or try again: %w", err)
		case err != nil:
			return Info{}, err
		}
		if !begun {
			begun = true
			if err := out.begin(page.Revision); err != nil {
				return Info{}, err
			}
		}
		for _, r := range page.Records {
			if err := out.add(r); err != nil {
				return Info{}, err
			}
		}
		if options.Progress != nil {
			options.Progress(out.info)
		}
	}
	return out.info, out.end()
}

// writer encodes a snapshot.
type writer struct {
	out     io.Writer
	digest  hash.Hash
	seed    uint32
	offset  int64
	payload []byte
	count   uint32
	info    Info
}

func (w *writer) write(b []byte) error {
	w.digest.Write(b)
	n, err := w.out.Write(b)
	w.offset += int64(n)
	if err != nil {
		return fmt.Errorf("write snapshot: %w", err)
	}
	return nil
}

func (w *writer) begin(revision int64) error {
	head, seed := encodeHead(revision)
	w.seed, w.info.Revision = seed, revision
	return w.write(head)
}

func (w *writer) add(r storage.Record) error {
	size := len(r.Key) + len(r.Value)
	switch {
	case r.Err != nil:
		return fmt.Errorf("%q: %w", r.Key, r.Err)
	case size > maxRecord:
		return fmt.Errorf("%w: %q has %d bytes", storage.ErrTooLarge, r.Key, size)
	}
	w.payload = appendRecord(w.payload, r)
	w.count++
	w.info.Records++
	w.info.Bytes += int64(size)
	if len(w.payload) < chunkSize {
		return nil
	}
	return w.flush()
}

func (w *writer) flush() error {
	if w.count == 0 {
		return nil
	}
	h := chunkHead{length: uint32(len(w.payload)), count: w.count}
	h.sum = h.sumOf(w.seed, w.offset, w.payload)
	err := w.write(h.encode())
	if err == nil {
		err = w.write(w.payload)
	}
	w.payload, w.count = w.payload[:0], 0
	return err
}

func (w *writer) end() error {
	if err := w.flush(); err != nil {
		return err
	}
	if err := w.write(encodeEnd(w.info.Records, w.info.Bytes)); err != nil {
		return err
	}
	return w.write(w.digest.Sum(nil))
}

// WriteFile is Write into a file, which is readable by its owner only. The file is replaced atomically: after an error,
// the previous one is still there; after success it survives a crash. A crash may leave a file beside it whose name
// begins with that of path and ends with .tmp.
func WriteFile(ctx context.Context, path string, from storage.Reader, options WriteOptions) (info Info, err error) {
	err = atomicfile.Fill(path, 0o600, func(file *os.File) error {
		var err error
		info, err = Write(ctx, file, from, options)
		return err
	})
	if err != nil {
		return Info{}, err
	}
	return info, nil
}
