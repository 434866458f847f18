// Package bulk reads and fills whole stores in bounded memory, for packages that copy their content.
package bulk

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/keelson-dev/keelson/storage"
)

const (
	// firstPage is the size of a page, in records, while their size is unknown, and largestPage the most it ever has.
	firstPage, largestPage = 16, 4096
	// pageBytes is the approximate size of a page.
	pageBytes = 4 << 20
)

// Pages reads all records under a prefix in key order, page by page, at one revision. 0 means the newest, which each
// page then names. After an error nothing follows.
func Pages(ctx context.Context, from storage.Reader, prefix string, revision int64) iter.Seq2[storage.Page, error] {
	return func(yield func(storage.Page, error) bool) {
		options := storage.ListOptions{Revision: revision, Limit: firstPage}
		for {
			page, err := from.List(ctx, prefix, options)
			if err == nil && page.More && len(page.Records) == 0 {
				err = errors.New("an empty page of a list says that more follows")
			}
			if err != nil {
				yield(storage.Page{}, fmt.Errorf("list %q after %q at revision %d: %w", prefix, options.After, options.Revision, err))
				return
			}
			if !yield(page, nil) || !page.More {
				return
			}
			options.Revision, options.After = page.Revision, page.Records[len(page.Records)-1].Key
			options.Limit = nextLimit(page.Records)
		}
	}
}

// nextLimit sizes a page by the one before.
func nextLimit(records []storage.Record) int {
	size := 1
	for _, r := range records {
		size += len(r.Key) + len(r.Value)
	}
	return max(1, min(largestPage, 4*len(records), pageBytes*len(records)/size))
}

// Records is Pages, record by record. A record that cannot be read is an error that names it.
func Records(ctx context.Context, from storage.Reader, prefix string, revision int64) iter.Seq2[storage.Record, error] {
	return func(yield func(storage.Record, error) bool) {
		for page, err := range Pages(ctx, from, prefix, revision) {
			if err != nil {
				yield(storage.Record{}, err)
				return
			}
			for _, r := range page.Records {
				if r.Err != nil {
					yield(storage.Record{}, fmt.Errorf("%q: %w", r.Key, r.Err))
					return
				}
				if !yield(r, nil) {
					return
				}
			}
		}
	}
}

// Empty returns an error that names a key if the store has any.
func Empty(ctx context.Context, s storage.Reader) error {
	page, err := s.List(ctx, "", storage.ListOptions{Limit: 1})
	if err != nil {
		return fmt.Errorf("look whether the store is empty: %w", err)
	}
	if len(page.Records) > 0 {
		return fmt.Errorf("%w: it holds %q", storage.ErrExists, page.Records[0].Key)
	}
	return nil
}

// Filler writes records into a store.
type Filler struct {
	To storage.Store
	// Writers is the number of concurrent writers; one keeps the order.
	Writers int
	// TTL may be nil. Its result takes effect if To is a storage.Lessor.
	TTL func(storage.Record) time.Duration
	// Done is called for every record that was written, one call at a time. It may be nil.
	Done func(storage.Record)
}

// Fill creates every record. It returns when all its writers have, with the first error.
func (f Filler) Fill(ctx context.Context, records iter.Seq2[storage.Record, error]) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	todo := make(chan storage.Record)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range max(1, f.Writers) {
		wg.Go(func() {
			for r := range todo {
				if err := f.create(ctx, r); err != nil {
					cancel(fmt.Errorf("create %q: %w", r.Key, err))
					return
				}
				if f.Done != nil {
					mu.Lock()
					f.Done(r)
					mu.Unlock()
				}
			}
		})
	}
	err := hand(ctx, records, todo)
	close(todo)
	wg.Wait()
	if cause := context.Cause(ctx); cause != nil && (err == nil || errors.Is(err, context.Canceled)) {
		return cause
	}
	return err // also when the source was canceled from outside
}

func hand(ctx context.Context, records iter.Seq2[storage.Record, error], todo chan<- storage.Record) error {
	for r, err := range records {
		if err != nil {
			return err
		}
		select {
		case todo <- r:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func (f Filler) create(ctx context.Context, r storage.Record) error {
	if lessor, ok := storage.As[storage.Lessor](f.To); ok && f.TTL != nil {
		if ttl := f.TTL(r); ttl > 0 {
			_, err := lessor.CreateFor(ctx, r.Key, r.Value, ttl)
			return err
		}
	}
	_, err := f.To.Create(ctx, r.Key, r.Value)
	return err
}
