package bulk_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/internal/bulk"
	"github.com/keelson-dev/keelson/storage/memory"
)

var (
	errBroken = errors.New("broken")
	errSource = errors.New("torn")
)

// filled returns a store of n records with values of the given size.
func filled(t *testing.T, n, size int) *memory.Store {
	t.Helper()
	s, value := memory.New(memory.Options{}), bytes.Repeat([]byte("x"), size)
	for i := range n {
		if _, err := s.Create(t.Context(), fmt.Sprintf("/%07d", i), value); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// asked records the lists of a store.
type asked struct {
	storage.Reader
	options []storage.ListOptions
	answer  func(storage.Page) (storage.Page, error) // nil passes it through
}

func (a *asked) List(ctx context.Context, prefix string, o storage.ListOptions) (storage.Page, error) {
	a.options = append(a.options, o)
	page, err := a.Reader.List(ctx, prefix, o)
	if err == nil && a.answer != nil {
		return a.answer(page)
	}
	return page, err
}

// TestPages: pages grow fourfold from sixteen records on as long as they hold at most some four MiB and 4096 records.
func TestPages(t *testing.T) {
	for name, c := range map[string]struct {
		records, size int
		want          []int // limits
	}{
		"none":              {0, 0, []int{16}},
		"one page":          {16, 100, []int{16}},
		"one record more":   {17, 100, []int{16, 64}},
		"small records":     {16 + 64 + 256 + 1024 + 4096 + 4096 + 1, 2, []int{16, 64, 256, 1024, 4096, 4096, 4096}},
		"of 128 KiB":        {16 + 31 + 31 + 1, 128 << 10, []int{16, 31, 31, 31}},
		"as large as pages": {16 + 2, 5 << 20, []int{16, 1, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			source := filled(t, c.records, c.size)
			newest, err := source.Revision(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			a := &asked{Reader: source, answer: func(p storage.Page) (storage.Page, error) {
				if p.More { // other writes happen between pages
					if _, err := source.Create(t.Context(), fmt.Sprintf("/later/%d", p.Revision*1000+int64(len(p.Records))), nil); err != nil && !errors.Is(err, storage.ErrExists) {
						return p, err
					}
				}
				return p, nil
			}}
			var keys []string
			for page, err := range bulk.Pages(t.Context(), a, "", 0) {
				if err != nil || page.Revision != newest {
					t.Fatalf("a page at %d, %v; want all at %d", page.Revision, err, newest)
				}
				for _, r := range page.Records {
					keys = append(keys, r.Key)
				}
			}
			if len(keys) != c.records || !slices.IsSorted(keys) || len(slices.Compact(keys)) != c.records {
				t.Errorf("%d records, want %d in order", len(keys), c.records)
			}
			var limits []int
			for _, o := range a.options {
				limits = append(limits, o.Limit)
			}
			if !slices.Equal(limits, c.want) {
				t.Errorf("asked for pages of %d records, want %d", limits, c.want)
			}
		})
	}
}

// TestPagesEnd: Pages ends with the last page, with the first error, and when the consumer stops.
func TestPagesEnd(t *testing.T) {
	torn := func(fail func(storage.Page) (storage.Page, error)) *asked {
		a := &asked{Reader: filled(t, 100, 2)}
		a.answer = func(p storage.Page) (storage.Page, error) {
			if len(a.options) == 2 {
				return fail(p)
			}
			return p, nil
		}
		return a
	}
	for name, c := range map[string]struct {
		source *asked
		want   string
	}{
		"fails": {torn(func(storage.Page) (storage.Page, error) { return storage.Page{More: true}, errBroken }), `list "/" after "/0000015" at revision 101: broken`},
		"more of nothing": {torn(func(storage.Page) (storage.Page, error) { return storage.Page{Revision: 101, More: true}, nil }),
			`list "/" after "/0000015" at revision 101: an empty page of a list says that more follows`},
	} {
		var seen []int
		var errs []error
		for page, err := range bulk.Pages(t.Context(), c.source, "/", 0) {
			if seen = append(seen, len(page.Records)); err != nil {
				errs = append(errs, err)
			}
		}
		if !slices.Equal(seen, []int{16, 0}) || len(errs) != 1 || errs[0].Error() != c.want {
			t.Errorf("%s: pages of %d, %v; want %s", name, seen, errs, c.want)
		}
		records := 0
		errs = nil
		c.source.options = nil
		for _, err := range bulk.Records(t.Context(), c.source, "/", 0) {
			if records++; err != nil {
				errs = append(errs, err)
			}
		}
		if records != 17 || len(errs) != 1 || errs[0].Error() != c.want {
			t.Errorf("%s: %d records, %v; want %s", name, records, errs, c.want)
		}
	}
	a := &asked{Reader: filled(t, 100, 2)}
	for range bulk.Pages(t.Context(), a, "/", 0) {
		break
	}
	for range bulk.Records(t.Context(), a, "/", 0) {
		break
	}
	if len(a.options) != 2 {
		t.Errorf("%d pages were asked for, want the first one of each", len(a.options))
	}
}

// TestRecords: Records reads at an old revision, under a prefix, up to an unreadable record.
func TestRecords(t *testing.T) {
	source := filled(t, 30, 2)
	a := &asked{Reader: source}
	n := 0
	for r, err := range bulk.Records(t.Context(), a, "/000002", 25) {
		if err != nil || !strings.HasPrefix(r.Key, "/000002") || r.Revision > 25 || string(r.Value) != "xx" {
			t.Errorf("%+v, %v", r, err)
		}
		n++
	}
	if n != 4 || a.options[0].Revision != 25 {
		t.Errorf("%d records at %d, want 4", n, a.options[0].Revision)
	}
	a.answer = func(p storage.Page) (storage.Page, error) {
		p.Records[3].Err = storage.ErrUnreadable
		return p, nil
	}
	n = 0
	for r, err := range bulk.Records(t.Context(), a, "/", 0) {
		if n++; n <= 3 != (err == nil) || n > 4 || err != nil && (!errors.Is(err, storage.ErrUnreadable) || !strings.HasPrefix(err.Error(), `"/0000003": `) || r.Key != "") {
			t.Errorf("record %d: %+v, %v", n, r, err)
		}
	}
	if n != 4 {
		t.Errorf("%d records, want three and an error", n)
	}
}

// TestEmpty: one record suffices.
func TestEmpty(t *testing.T) {
	if err := bulk.Empty(t.Context(), memory.New(memory.Options{})); err != nil {
		t.Errorf("an empty store: %v", err)
	}
	a := &asked{Reader: filled(t, 2, 2)}
	if err := bulk.Empty(t.Context(), a); !errors.Is(err, storage.ErrExists) || !strings.HasSuffix(err.Error(), `: it holds "/0000000"`) {
		t.Errorf("a store with records: %v", err)
	}
	if want := (storage.ListOptions{Limit: 1}); a.options[0] != want {
		t.Errorf("listed %+v, want %+v", a.options[0], want)
	}
	a.answer = func(storage.Page) (storage.Page, error) { return storage.Page{}, errBroken }
	if err := bulk.Empty(t.Context(), a); !errors.Is(err, errBroken) || !strings.HasPrefix(err.Error(), "look whether the store is empty: ") {
		t.Errorf("a broken store: %v", err)
	}
}

// slow takes a second per write and fails that of one key.
type slow struct {
	*memory.Store
	fails string

	mu   sync.Mutex
	keys []string
	ttls map[string]time.Duration
}

func (s *slow) Create(ctx context.Context, key string, value []byte) (int64, error) {
	s.mu.Lock()
	s.keys = append(s.keys, key)
	s.mu.Unlock()
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	if key == s.fails {
		return 0, errBroken
	}
	return s.Store.Create(ctx, key, value)
}

// leased is such a store with leases.
type leased struct{ *slow }

func (l leased) CreateFor(ctx context.Context, key string, value []byte, ttl time.Duration) (int64, error) {
	l.mu.Lock()
	l.ttls[key] = ttl
	l.mu.Unlock()
	return l.Create(ctx, key, value)
}

func (l leased) UpdateFor(ctx context.Context, key string, value []byte, expected int64, _ time.Duration) (int64, error) {
	return l.Update(ctx, key, value, expected)
}

func records(n int, end error) iter.Seq2[storage.Record, error] {
	return func(yield func(storage.Record, error) bool) {
		for i := range n {
			if !yield(storage.Record{Key: fmt.Sprintf("/%03d", i), Value: []byte{byte(i)}}, nil) {
				return
			}
		}
		if end != nil {
			yield(storage.Record{}, end)
		}
	}
}

// TestFill: the given number of concurrent writers, and one in order; Done is called once per record.
func TestFill(t *testing.T) {
	for writers, want := range map[int]time.Duration{-1: 8 * time.Second, 0: 8 * time.Second, 1: 8 * time.Second, 2: 4 * time.Second, 8: time.Second, 20: time.Second} {
		for _, told := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				to := &slow{Store: memory.New(memory.Options{})}
				var done []string
				filler := bulk.Filler{To: to, Writers: writers}
				if told {
					filler.Done = func(r storage.Record) { done = append(done, r.Key) } // the race detector would see concurrent calls
				}
				start := time.Now()
				if err := filler.Fill(t.Context(), records(8, nil)); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(start); took != want {
					t.Errorf("%d writers: %v, want %v", writers, took, want)
				}
				if !slices.IsSorted(to.keys) && writers <= 1 || len(to.keys) != 8 || told && len(done) != 8 {
					t.Errorf("%d writers: wrote %q, told %q", writers, to.keys, done)
				}
				for r, err := range records(8, nil) {
					if got, gotErr := to.Get(t.Context(), r.Key); err != nil || gotErr != nil || !bytes.Equal(got.Value, r.Value) {
						t.Errorf("%s: %q, %v", r.Key, got.Value, gotErr)
					}
				}
			})
		}
	}
}

// TestFillFor: records with a time to live are leased in stores that support it.
func TestFillFor(t *testing.T) {
	ttl := func(r storage.Record) time.Duration { return time.Duration(int(r.Value[0])-1) * time.Hour }
	for name, c := range map[string]struct {
		ttl  func(storage.Record) time.Duration
		want map[string]time.Duration
	}{
		"some end": {ttl, map[string]time.Duration{"/002": time.Hour, "/003": 2 * time.Hour}},
		"all stay": {nil, map[string]time.Duration{}},
	} {
		synctest.Test(t, func(t *testing.T) {
			plain := &slow{Store: memory.New(memory.Options{}), ttls: map[string]time.Duration{}}
			if err := (bulk.Filler{To: leased{plain}, TTL: c.ttl}).Fill(t.Context(), records(4, nil)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if fmt.Sprint(plain.ttls) != fmt.Sprint(c.want) || len(plain.keys) != 4 {
				t.Errorf("%s: %v, %q; want %v of all", name, plain.ttls, plain.keys, c.want)
			}
			failing := leased{&slow{Store: memory.New(memory.Options{}), ttls: map[string]time.Duration{}, fails: "/002"}}
			if err := (bulk.Filler{To: failing, TTL: c.ttl}).Fill(t.Context(), records(4, nil)); !errors.Is(err, errBroken) {
				t.Errorf("%s, one of which fails: %v", name, err)
			}
			other := &slow{Store: memory.New(memory.Options{})}
			if err := (bulk.Filler{To: other, TTL: c.ttl}).Fill(t.Context(), records(4, nil)); err != nil || len(other.keys) != 4 {
				t.Errorf("%s where nothing ends: %q, %v", name, other.keys, err)
			}
		})
	}
}

// TestFillFails: the first error ends it, whatever its source, and is never taken for success.
func TestFillFails(t *testing.T) {
	for name, c := range map[string]struct {
		fails   string // key
		source  error
		ends    error // the cause that ends the context, after 2.5 s
		writers int
		n       int
		want    error
		says    string
		most    int // writes
	}{
		"the first record":           {fails: "/000", writers: 1, n: 50, want: errBroken, says: `create "/000": broken`, most: 1},
		"one of two writers":         {fails: "/003", writers: 2, n: 50, want: errBroken, says: `create "/003": broken`, most: 6},
		"the last record":            {fails: "/049", writers: 1, n: 50, want: errBroken, says: `create "/049": broken`, most: 50},
		"the source":                 {source: errBroken, writers: 2, n: 4, want: errBroken, says: "broken", most: 4},
		"the source before a writer": {fails: "/001", source: errSource, writers: 2, n: 2, want: errSource, says: "torn", most: 2},
		"the source, canceled":       {source: fmt.Errorf("source: %w", context.Canceled), writers: 2, n: 4, want: context.Canceled, says: "source: context canceled", most: 4},
		"the caller":                 {ends: errBroken, writers: 2, n: 50, want: errBroken, says: "broken", most: 6},
		"the caller, at the end":     {ends: errBroken, writers: 2, n: 6, want: errBroken, says: "broken", most: 6},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if c.ends != nil {
					time.AfterFunc(2500*time.Millisecond, func() { cancel(c.ends) })
				}
				to := &slow{Store: memory.New(memory.Options{}), fails: c.fails}
				err := bulk.Filler{To: to, Writers: c.writers}.Fill(ctx, records(c.n, c.source))
				if !errors.Is(err, c.want) || err.Error() != c.says {
					t.Errorf("got %v, want %v: %s", err, c.want, c.says)
				}
				if len(to.keys) > c.most {
					t.Errorf("%d records were written, want at most %d", len(to.keys), c.most)
				}
			})
		})
	}
	// The cause of the context's end takes precedence over the source's error.
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errBroken)
	err := bulk.Filler{To: memory.New(memory.Options{})}.Fill(ctx, func(yield func(storage.Record, error) bool) {
		yield(storage.Record{}, fmt.Errorf("list: %w", ctx.Err()))
	})
	if err != errBroken { //nolint:errorlint // this very one
		t.Errorf("got %v, want %v", err, errBroken)
	}
}
