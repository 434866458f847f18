package wal_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/internal/disk/crashdisk"
	"github.com/keelson-dev/keelson/storage/wal"
)

// A crash point is one life of a store: it opens what the last crash left, compares it with what was acknowledged,
// writes, and crashes in the middle of an arbitrary disk operation: of a write, of compaction, of closing, or of
// opening itself. Sometimes only the process dies, and what was not synced is at risk until the next crash of the
// machine.
const (
	seeds        = 400
	livesPerSeed = 25
)

func TestCrash(t *testing.T) {
	var points, writes, unopened, compactions int
	var mu sync.Mutex
	t.Run("seeds", func(t *testing.T) {
		for seed := range uint64(seeds) {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				h := newCrashHistory(t.Context(), seed, crashdisk.Faults{})
				for life := range livesPerSeed {
					if err := h.live(); err != nil {
						t.Fatalf("life %d: %v", life, err)
					}
				}
				mu.Lock()
				defer mu.Unlock()
				points += livesPerSeed
				writes += h.writes
				unopened += h.unopened
				compactions += h.compactions
			})
		}
	})
	t.Logf("%d crash points: %d acknowledged writes, %d compactions, %d crashes while opening", points, writes, compactions, unopened)
	if points < 10_000 || writes < points || unopened < points/100 || compactions < points/100 {
		t.Errorf("the workload does not reach what it is to test")
	}
}

// The crash test must fail where a store that does not sync would lose data.
func TestCrashTestNoticesMissingSync(t *testing.T) {
	for name, faults := range map[string]crashdisk.Faults{
		"files":     {IgnoreSync: true},
		"directory": {IgnoreDirSync: true},
		"both":      {IgnoreSync: true, IgnoreDirSync: true},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(10) {
				h := newCrashHistory(t.Context(), seed, faults)
				var err error
				for life := 0; life < 100 && err == nil; life++ {
					err = h.live()
				}
				if err == nil {
					t.Errorf("seed %d: 100 crashes without sync and no loss noticed", seed)
				}
			}
		})
	}
}

// crashHistory is a disk with what was acknowledged on it.
type crashHistory struct {
	ctx    context.Context
	random *rand.Rand
	disk   *crashdisk.Disk
	first  int64 // first revision of the store

	mu       sync.Mutex
	state    map[string]storage.Record // acknowledged
	log      map[int64]storage.Event   // acknowledged, by revision, Prev left out
	inFlight map[string]storage.Event  // by key: unanswered at the crash; Revision unknown
	revision int64                     // the highest seen
	snapshot string                    // the name of the last seen

	writes, unopened, compactions int
}

func newCrashHistory(ctx context.Context, seed uint64, faults crashdisk.Faults) *crashHistory {
	return &crashHistory{
		ctx:      ctx,
		random:   rand.New(rand.NewPCG(seed, 1)),
		disk:     crashdisk.New(faults),
		first:    1 + int64(seed%2)*1000,
		state:    map[string]storage.Record{},
		log:      map[int64]storage.Event{},
		inFlight: map[string]storage.Event{},
	}
}

// live runs one life, up to and including the crash.
func (h *crashHistory) live() error {
	before := 60
	if h.revision == 0 { // more can go wrong at the beginning than there are beginnings
		before = 20
	}
	h.disk.CrashAfter(h.random.IntN(before))
	store, err := wal.OpenIn(h.disk, "dir", wal.Options{
		History:       1 + h.random.IntN(50),
		CompactBytes:  int64(1 + h.random.IntN(6000)),
		FirstRevision: h.first,
	})
	switch {
	case err == nil:
		err = errors.Join(h.check(store), h.work(store))
		if closeErr := store.Close(); closeErr != nil && !errors.Is(closeErr, crashdisk.ErrCrashed) {
			err = errors.Join(err, closeErr)
		}
	case h.disk.Crashed():
		h.unopened++
		err = nil
	}
	if h.random.IntN(4) == 0 {
		h.disk.Revive()
	} else {
		h.disk = h.disk.Restart(h.random)
	}
	return err
}

// check compares a reopened store with what was acknowledged.
func (h *crashHistory) check(store *wal.Store) error {
	page, err := store.List(h.ctx, "", storage.ListOptions{})
	if err != nil {
		return err
	}
	if page.Revision < max(h.revision, h.first) {
		return fmt.Errorf("the store is at revision %d, but was at %d", page.Revision, max(h.revision, h.first))
	}
	found := map[string]storage.Record{}
	for _, r := range page.Records {
		found[r.Key] = r
	}
	if err := h.adopt(found); err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(h.state)) {
		want, got := h.state[key], found[key]
		if want.Revision != got.Revision || !bytes.Equal(want.Value, got.Value) {
			return fmt.Errorf("%s: %d bytes at revision %d were acknowledged, found are %d at %d",
				key, len(want.Value), want.Revision, len(got.Value), got.Revision)
		}
	}
	for key := range found {
		if _, there := h.state[key]; !there {
			return fmt.Errorf("%s is back, or was never written", key)
		}
	}
	h.revision = page.Revision
	return h.checkHistory(store)
}

// adopt treats in-flight writes that a reopened store shows as acknowledged, because readers may rely on them.
func (h *crashHistory) adopt(found map[string]storage.Record) error {
	for key, e := range h.inFlight {
		before, was := h.state[key]
		now, is := found[key]
		switch {
		case was == is && before.Revision == now.Revision: // the write did not happen
		case e.Type == storage.Delete && !is:
			delete(h.state, key)
		case e.Type == storage.Put && is && bytes.Equal(e.Value, now.Value) && now.Revision > before.Revision:
			h.state[key] = now
			e.Revision = now.Revision
			h.log[e.Revision] = e
		default:
			return fmt.Errorf("%s: found %d bytes at %d, which is neither what was acknowledged nor what was being written",
				key, len(now.Value), now.Revision)
		}
	}
	clear(h.inFlight)
	return nil
}

// checkHistory watches a reopened store from some revision: the history it still has must be complete and in order.
func (h *crashHistory) checkHistory(store *wal.Store) error {
	if names, err := h.disk.Names(); err == nil {
		for _, name := range names {
			if strings.HasSuffix(name, ".snapshot") && name > h.snapshot {
				h.snapshot = name
				h.compactions++
			}
		}
	}
	position := max(1, h.revision-h.random.Int64N(40))
	stream, err := store.Watch(h.ctx, "", position)
	if errors.Is(err, storage.ErrCompacted) {
		return nil
	}
	if err != nil {
		return err
	}
	defer stream.Close()
	latest := map[string][]byte{}
	for position < h.revision {
		events, err := stream.Next(h.ctx)
		if err != nil {
			return err
		}
		for _, e := range events {
			want, known := h.log[e.Revision]
			if e.Revision != position+1 || known && (e.Type != want.Type || e.Key != want.Key || !bytes.Equal(e.Value, want.Value)) {
				return fmt.Errorf("after revision %d comes %d of %q, written was %q", position, e.Revision, e.Key, want.Key)
			}
			if prev, seen := latest[e.Key]; seen && (!bytes.Equal(prev, e.Prev) || (prev == nil) != (e.Prev == nil)) {
				return fmt.Errorf("the event at %d of %s does not follow the one before", e.Revision, e.Key)
			}
			latest[e.Key] = e.Value
			position = e.Revision
		}
	}
	return nil
}

// work runs a few writers until they are done or the disk crashes. Every writer has keys of its own, so that it knows
// what to expect.
func (h *crashHistory) work(store *wal.Store) error {
	errs := make([]error, 1+h.random.IntN(4))
	var wg sync.WaitGroup
	for w := range errs {
		random := rand.New(rand.NewPCG(h.random.Uint64(), 2))
		wg.Go(func() {
			for range random.IntN(60) {
				err := h.write(store, random, fmt.Sprintf("w%d/%d", w, random.IntN(5)))
				if errors.Is(err, crashdisk.ErrCrashed) {
					return
				}
				if err != nil {
					errs[w] = fmt.Errorf("write: %w", err)
					return
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// write makes one write and records it.
func (h *crashHistory) write(store *wal.Store, random *rand.Rand, key string) error {
	h.mu.Lock()
	before, there := h.state[key]
	e := storage.Event{Type: storage.Put, Key: key, Value: someBytes(random)}
	if there && random.IntN(4) == 0 {
		e.Type, e.Value = storage.Delete, nil
	}
	h.inFlight[key] = e
	h.mu.Unlock()

	var err error
	switch {
	case !there:
		e.Revision, err = store.Create(h.ctx, key, e.Value)
	case e.Type == storage.Put:
		e.Revision, err = store.Update(h.ctx, key, e.Value, before.Revision)
	default:
		e.Revision, err = store.Delete(h.ctx, key, before.Revision)
	}
	if err != nil {
		return err
	}

	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.inFlight, key)
	if _, taken := h.log[e.Revision]; taken || e.Revision <= before.Revision {
		return fmt.Errorf("revision %d was given twice", e.Revision)
	}
	h.log[e.Revision] = e
	if e.Type == storage.Put {
		h.state[key] = storage.Record{Key: key, Value: e.Value, Revision: e.Revision}
	} else {
		delete(h.state, key)
	}
	h.revision = max(h.revision, e.Revision)
	h.writes++
	return nil
}

// someBytes returns a value, sometimes of several sectors.
func someBytes(random *rand.Rand) []byte {
	sizes := []int{0, 1, 20, 200, 600, 3000}
	b := make([]byte, random.IntN(sizes[random.IntN(len(sizes))]+1))
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	return b
}
