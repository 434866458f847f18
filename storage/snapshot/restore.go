package snapshot

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"time"

	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/internal/bulk"
)

// RestoreOptions tunes Restore; the zero value is ready to use.
type RestoreOptions struct {
	// Writers is how many records are written at the same time; 0 means one, which keeps the order of revisions. More
	// are faster on a store that commits in groups, such as wal and etcd, but may swap records that were written
	// shortly after each other.
	Writers int
	// TTL, if not nil, returns a record's time to live from now on; 0 makes it permanent. It takes effect in a
	// storage.Lessor.
	TTL func(storage.Record) time.Duration
	// Progress, if not nil, is called from time to time with what has been written so far, one call at a time.
	Progress func(Info)
}

// Restored is the outcome of Restore.
type Restored struct {
	Info         // of the snapshot
	Newest int64 // revision of the store with all records
	// Behind: the store began at a lower revision than the snapshot's, so clients that followed the old store may miss
	// changes.
	Behind bool
}

// Restore fills an empty store with the records of a snapshot, and compares them at the end. It reads the whole file
// first: if the file cannot be used, it returns a *FileError and has written nothing. It refuses a store that is not
// empty with ErrNotEmpty. After a later failure, the store holds a part of the records: empty it before another
// attempt. Restore keeps 24 bytes per record in memory.
func Restore(ctx context.Context, to storage.Store, file io.ReaderAt, size int64, options RestoreOptions) (Restored, error) {
	var places []placed
	info, err := read(ctx, file, size, func(r storage.Record, p place) error {
		places = append(places, placed{r.Revision, p})
		return nil
	})
	if err != nil {
		return Restored{}, err
	}
	began, err := prepare(ctx, to)
	if err != nil {
		return Restored{}, err
	}
	// Keys ascend in the file, so a stable sort keeps the order of records with the same revision.
	slices.SortStableFunc(places, func(a, b placed) int { return cmp.Compare(a.revision, b.revision) })
	done := Info{Revision: info.Revision}
	filler := bulk.Filler{To: to, Writers: options.Writers, TTL: options.TTL, Done: func(r storage.Record) {
		done.Records++
		done.Bytes += int64(len(r.Key) + len(r.Value))
		if options.Progress != nil && (done.Records%progressEvery == 0 || done.Records == info.Records) {
			options.Progress(done)
		}
	}}
	if err := filler.Fill(ctx, records(file, places)); err != nil {
		return Restored{}, fmt.Errorf("%d of %d records are restored, empty the store before another attempt: %w", done.Records, info.Records, err)
	}
	newest, err := to.Revision(ctx)
	if err != nil {
		return Restored{}, err
	}
	if err := compare(ctx, to, file, size, options.TTL); err != nil {
		return Restored{}, fmt.Errorf("the restored store differs from the snapshot: %w", err)
	}
	return Restored{info, newest, began < info.Revision}, nil
}

// progressEvery is the number of records between two calls of Progress.
const progressEvery = 256

// prepare checks that a store is empty and returns its revision.
func prepare(ctx context.Context, to storage.Store) (int64, error) {
	if err := bulk.Empty(ctx, to); errors.Is(err, storage.ErrExists) {
		return 0, fmt.Errorf("%w: %w", ErrNotEmpty, err)
	} else if err != nil {
		return 0, err
	}
	return to.Revision(ctx)
}

// placed is a place with the revision of its record.
type placed struct {
	revision int64
	place
}

// records reads records that were checked before.
func records(file io.ReaderAt, places []placed) iter.Seq2[storage.Record, error] {
	return func(yield func(storage.Record, error) bool) {
		for _, p := range places {
			b := make([]byte, p.length) // the store keeps the value
			_, err := file.ReadAt(b, p.offset)
			if errors.Is(err, io.EOF) {
				err = nil // io.EOF may come with the last byte; the checksum decides
			}
			r, length, ok := decodeRecord(b)
			if err == nil && (!ok || length != len(b) || checksum(b) != p.sum) {
				err = &FileError{p.offset, "the file has changed since it was checked", ErrDamaged}
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// compare compares a store with a snapshot. Records with a time to live may be gone.
func compare(ctx context.Context, s storage.Reader, file io.ReaderAt, size int64, ttl func(storage.Record) time.Duration) error {
	next, stop := iter.Pull2(bulk.Records(ctx, s, "", 0))
	defer stop()
	got, err, more := next()
	_, readErr := read(ctx, file, size, func(want storage.Record, _ place) error {
		switch {
		case err != nil:
			return err
		case more && got.Key == want.Key && bytes.Equal(got.Value, want.Value):
			got, err, more = next()
			return nil
		case more && got.Key == want.Key:
			return fmt.Errorf("%q has another value", want.Key)
		case more && got.Key < want.Key:
			return fmt.Errorf("%q is not of the snapshot", got.Key)
		case ttl != nil && ttl(want) > 0:
			return nil
		}
		return fmt.Errorf("%q is missing", want.Key)
	})
	switch {
	case readErr != nil:
		return readErr
	case err != nil:
		return err
	case more:
		return fmt.Errorf("%q is not of the snapshot", got.Key)
	}
	return nil
}
