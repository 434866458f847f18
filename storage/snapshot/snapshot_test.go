package snapshot_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/memory"
	"github.com/keelson-dev/keelson/storage/snapshot"
	"github.com/keelson-dev/keelson/storage/wal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// filled returns a store whose keys were not written in their order.
func filled(t testing.TB, n, size int) *memory.Store {
	t.Helper()
	s := memory.New(memory.Options{})
	t.Cleanup(func() { s.Close() })
	for i := range n {
		key := fmt.Sprintf("/%03d/%d", i*7919%1000, i)
		at, err := s.Create(t.Context(), key, bytes.Repeat([]byte{byte(i)}, i%(size+1)))
		if err == nil && i%5 == 0 {
			_, err = s.Update(t.Context(), key, bytes.Repeat([]byte{byte(i), 0}, i%(size+1)), at)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func write(t testing.TB, from storage.Reader) ([]byte, snapshot.Info) {
	t.Helper()
	var b bytes.Buffer
	info, err := snapshot.Write(t.Context(), &b, from, snapshot.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), info
}

func records(t testing.TB, s storage.Reader, o storage.ListOptions) []storage.Record {
	t.Helper()
	page, err := s.List(t.Context(), "", o)
	if err != nil {
		t.Fatal(err)
	}
	return page.Records
}

func restore(ctx context.Context, to storage.Store, file []byte, o snapshot.RestoreOptions) (snapshot.Restored, error) {
	return snapshot.Restore(ctx, to, bytes.NewReader(file), int64(len(file)), o)
}

func TestRoundTrip(t *testing.T) {
	for _, c := range []struct{ n, size, writers int }{{0, 0, 0}, {1, 0, 0}, {1, 3 << 20, 0}, {3000, 2000, 0}, {3000, 2000, 16}} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			source := filled(t, c.n, c.size)
			file, info := write(t, source)
			if again, _ := write(t, source); !bytes.Equal(file, again) {
				t.Error("the same state makes another file")
			}
			want := records(t, source, storage.ListOptions{})
			if info.Records != int64(len(want)) {
				t.Errorf("%d records written, want %d", info.Records, len(want))
			}
			checked, err := snapshot.Check(t.Context(), bytes.NewReader(file), int64(len(file)))
			if err != nil || checked != info {
				t.Errorf("Check = %+v, %v; want %+v", checked, err, info)
			}

			target, err := wal.Open(t.TempDir(), wal.Options{FirstRevision: info.FirstRevision()})
			if err != nil {
				t.Fatal(err)
			}
			defer target.Close()
			var told snapshot.Info
			restored, err := restore(t.Context(), target, file, snapshot.RestoreOptions{Writers: c.writers, Progress: func(i snapshot.Info) { told = i }})
			if err != nil || restored.Info != info || restored.Behind || restored.Newest != info.FirstRevision()+info.Records || c.n > 0 && told != info {
				t.Fatalf("Restore = %+v, %v, told %+v; want %+v", restored, err, told, info)
			}
			got := records(t, target, storage.ListOptions{})
			if c.writers == 0 {
				compareOrder(t, got, want)
			}
			if _, err := target.Watch(t.Context(), "", info.Revision); !errors.Is(err, storage.ErrCompacted) {
				t.Errorf("Watch of a client of the old store: %v, want ErrCompacted", err)
			}
			if _, err := restore(t.Context(), target, file, snapshot.RestoreOptions{}); c.n > 0 && !errors.Is(err, snapshot.ErrNotEmpty) {
				t.Errorf("Restore into a store that is not empty: %v", err)
			}
		})
	}
}

// compareOrder checks that records are equal except for their revisions, and those in the same order.
func compareOrder(t *testing.T, got, want []storage.Record) {
	t.Helper()
	byRevision := func(a, b storage.Record) int { return int(a.Revision - b.Revision) }
	slices.SortFunc(got, byRevision)
	slices.SortFunc(want, byRevision)
	if !slices.EqualFunc(got, want, func(a, b storage.Record) bool { return a.Key == b.Key && bytes.Equal(a.Value, b.Value) }) {
		t.Errorf("%d records are not the %d of the source in their order", len(got), len(want))
	}
}

// A snapshot shows one revision, whatever is written meanwhile.
func TestWhileWriting(t *testing.T) {
	source := filled(t, 3000, 100)
	var want []storage.Record
	var b bytes.Buffer
	calls := 0
	info, err := snapshot.Write(t.Context(), &b, source, snapshot.WriteOptions{Progress: func(i snapshot.Info) {
		if calls++; calls == 1 {
			want = records(t, source, storage.ListOptions{Revision: i.Revision})
		}
		for _, r := range want[i.Records-1 : min(int(i.Records)+5, len(want))] { // the next records to write, and later ones
			if record, err := source.Get(t.Context(), r.Key); err == nil {
				if _, err := source.Delete(t.Context(), r.Key, record.Revision); err != nil {
					t.Error(err)
				}
			}
			if _, err := source.Create(t.Context(), r.Key, []byte("later")); err != nil {
				t.Error(err)
			}
		}
		if _, err := source.Create(t.Context(), fmt.Sprint("/999/later/", calls), nil); err != nil {
			t.Error(err)
		}
	}})
	if err != nil || calls < 3 {
		t.Fatalf("Write = %+v, %v with %d pages", info, err, calls)
	}
	target := memory.New(memory.Options{})
	restored, err := restore(t.Context(), target, b.Bytes(), snapshot.RestoreOptions{})
	if err != nil || !restored.Behind {
		t.Fatalf("Restore = %+v, %v", restored, err)
	}
	compareOrder(t, records(t, target, storage.ListOptions{}), want)

	// More than the history: an error that says so.
	small := memory.New(memory.Options{History: 10})
	for i := range 1000 {
		if _, err := small.Create(t.Context(), fmt.Sprint(i), nil); err != nil {
			t.Fatal(err)
		}
	}
	_, err = snapshot.Write(t.Context(), &b, small, snapshot.WriteOptions{Progress: func(i snapshot.Info) {
		for n := range 11 {
			if _, err := small.Create(t.Context(), fmt.Sprintf("x%d/%d", i.Records, n), nil); err != nil {
				t.Error(err)
			}
		}
	}})
	if !errors.Is(err, storage.ErrCompacted) {
		t.Errorf("Write of a store that forgets: %v", err)
	}
}

// A file with any byte changed, or cut anywhere, is refused before anything is written.
func TestDamage(t *testing.T) {
	file, _ := write(t, filled(t, 12, 10))
	refuse := func(what string, damaged []byte) {
		t.Helper()
		target := memory.New(memory.Options{})
		_, err := restore(t.Context(), target, damaged, snapshot.RestoreOptions{})
		var bad *snapshot.FileError
		if !errors.As(err, &bad) || bad.Reason == "" || bad.Offset < 0 || bad.Offset > int64(len(damaged)) ||
			!errors.Is(err, snapshot.ErrDamaged) && !errors.Is(err, snapshot.ErrForeign) && !errors.Is(err, snapshot.ErrVersion) {
			t.Errorf("%s: %v", what, err)
		}
		if now, err := target.Revision(t.Context()); err != nil || now != 1 {
			t.Errorf("%s: the store is at %d, %v", what, now, err)
		}
	}
	for at := range file {
		for _, bit := range []byte{1, 0x80, 0xff} {
			damaged := bytes.Clone(file)
			damaged[at] ^= bit
			refuse(fmt.Sprintf("byte %d changed by %#x", at, bit), damaged)
		}
		refuse(fmt.Sprintf("cut at %d", at), file[:at])
		refuse(fmt.Sprintf("without byte %d", at), slices.Delete(bytes.Clone(file), at, at+1))
		refuse(fmt.Sprintf("with a byte before %d", at), slices.Insert(bytes.Clone(file), at, 0x41))
	}
	refuse("with a byte behind", append(bytes.Clone(file), 0))
	refuse("twice", append(bytes.Clone(file), file...))

	for name, c := range map[string]struct {
		file []byte
		want error
	}{
		"empty":    {nil, snapshot.ErrForeign},
		"text":     {[]byte("apiVersion: v1\n"), snapshot.ErrForeign},
		"version":  {append([]byte("keelsnap\x02\x00\x00\x00"), file[12:]...), snapshot.ErrVersion},
		"cut head": {file[:20], snapshot.ErrDamaged},
		"cut":      {file[:len(file)-1], snapshot.ErrDamaged},
	} {
		if _, err := snapshot.Check(t.Context(), bytes.NewReader(c.file), int64(len(c.file))); !errors.Is(err, c.want) {
			t.Errorf("%s: Check = %v, want %v", name, err, c.want)
		}
	}
}

// dying fails after a number of lists.
type dying struct {
	*memory.Store
	lists int
}

var errDied = errors.New("died")

func (d *dying) List(ctx context.Context, prefix string, o storage.ListOptions) (storage.Page, error) {
	if d.lists--; d.lists < 0 {
		return storage.Page{}, errDied
	}
	return d.Store.List(ctx, prefix, o)
}

// The name always holds a complete file: the new one or the previous one.
func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state.snapshot")
	names := func() []string {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	source := filled(t, 1000, 10)
	for lists := range 3 {
		if _, err := snapshot.WriteFile(t.Context(), path, &dying{source, lists}, snapshot.WriteOptions{}); !errors.Is(err, errDied) || len(names()) > 0 {
			t.Errorf("WriteFile of a store that dies = %v and leaves %v", err, names())
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err := snapshot.WriteFile(ctx, path, source, snapshot.WriteOptions{Progress: func(snapshot.Info) { cancel() }})
	if !errors.Is(err, context.Canceled) || len(names()) > 0 {
		t.Errorf("WriteFile under a context that ends = %v and leaves %v", err, names())
	}
	info, err := snapshot.WriteFile(t.Context(), path, source, snapshot.WriteOptions{Progress: func(snapshot.Info) {
		if now := names(); len(now) != 1 || !strings.HasSuffix(now[0], ".tmp") {
			t.Errorf("while it is written there are %v", now)
		}
	}})
	if err != nil || info.Records != 1000 {
		t.Fatalf("WriteFile = %+v, %v", info, err)
	}
	stat, err := os.Stat(path)
	if err != nil || stat.Mode() != fs.FileMode(0o600) || len(names()) != 1 {
		t.Errorf("%v has mode %v, %v", names(), stat.Mode(), err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := snapshot.WriteFile(t.Context(), path, &dying{source, 1}, snapshot.WriteOptions{}); !errors.Is(err, errDied) {
		t.Errorf("WriteFile = %v", err)
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, before) {
		t.Errorf("a failed WriteFile changed the file: %v", err)
	}
}

// lossy is a store that loses or changes what is written to it.
type lossy struct {
	*memory.Store
	create func(s *memory.Store, key string, value []byte) (int64, error)
}

func (l lossy) Create(_ context.Context, key string, value []byte) (int64, error) {
	return l.create(l.Store, key, value)
}

// What the store holds after Restore is compared with the file.
func TestRestoreCompares(t *testing.T) {
	source := filled(t, 300, 10)
	file, _ := write(t, source)
	ctx := t.Context()
	for name, create := range map[string]func(s *memory.Store, key string, value []byte) (int64, error){
		"is missing": func(s *memory.Store, key string, value []byte) (int64, error) {
			if strings.HasSuffix(key, "/299") {
				return 5, nil
			}
			return s.Create(ctx, key, value)
		},
		"has another value": func(s *memory.Store, key string, value []byte) (int64, error) {
			return s.Create(ctx, key, append(bytes.Clone(value), 'x'))
		},
		"is not of the snapshot": func(s *memory.Store, key string, value []byte) (int64, error) {
			if strings.HasSuffix(key, "/299") {
				_, _ = s.Create(ctx, "\xffmore", nil)
			}
			return s.Create(ctx, key, value)
		},
		"299 of 300": func(s *memory.Store, key string, value []byte) (int64, error) {
			if now, _ := s.Revision(ctx); now == 300 {
				return 0, errDied
			}
			return s.Create(ctx, key, value)
		},
	} {
		_, err := restore(ctx, lossy{memory.New(memory.Options{}), create}, file, snapshot.RestoreOptions{})
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("Restore into a store that loses = %v, want %q", err, name)
		}
	}
	// Records with a time to live may be gone.
	_, err := restore(ctx, lossy{memory.New(memory.Options{}), func(*memory.Store, string, []byte) (int64, error) { return 1, nil }}, file,
		snapshot.RestoreOptions{TTL: func(storage.Record) time.Duration { return time.Second }})
	if err != nil {
		t.Errorf("Restore of records with a time to live: %v", err)
	}
}

type unreadable struct{ *memory.Store }

func (unreadable) List(context.Context, string, storage.ListOptions) (storage.Page, error) {
	return storage.Page{Records: []storage.Record{{Key: "secret", Revision: 1, Err: storage.ErrUnreadable}}, Revision: 1}, nil
}

func TestUnreadable(t *testing.T) {
	_, err := snapshot.Write(t.Context(), &bytes.Buffer{}, unreadable{}, snapshot.WriteOptions{})
	if !errors.Is(err, storage.ErrUnreadable) || !strings.Contains(err.Error(), `"secret"`) {
		t.Errorf("Write = %v", err)
	}
}

func TestFirstRevision(t *testing.T) {
	for revision, want := range map[int64]int64{1: 1_000_000_001, math.MaxInt64 - 5: math.MaxInt64} {
		if got := (snapshot.Info{Revision: revision}).FirstRevision(); got != want {
			t.Errorf("FirstRevision after %d = %d, want %d", revision, got, want)
		}
	}
}

// Memory stays at a page's size, however large the store is.
func TestMemoryIsBounded(t *testing.T) {
	const size, n = 256 << 10, 400 // 100 MiB in all
	s := synthetic{n: n, value: make([]byte, size)}
	most := 0
	s.lists = func(records int) { most = max(most, records*size) }
	info, err := snapshot.Write(t.Context(), discard{}, &s, snapshot.WriteOptions{})
	if err != nil || info.Records != n {
		t.Fatalf("Write = %+v, %v", info, err)
	}
	if most > 64*size {
		t.Errorf("a page held %d bytes", most)
	}
	if s.pages < n*size/(8<<20) {
		t.Errorf("there were only %d pages", s.pages)
	}
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }

// synthetic is a store of many records that share one value.
type synthetic struct {
	storage.Reader
	n, pages int
	value    []byte
	lists    func(records int)
}

func (s *synthetic) List(_ context.Context, _ string, o storage.ListOptions) (storage.Page, error) {
	page := storage.Page{Revision: 1}
	for i := range s.n {
		key := fmt.Sprintf("%08d", i)
		switch {
		case key <= o.After:
		case len(page.Records) == o.Limit:
			page.More = true
		default:
			page.Records = append(page.Records, storage.Record{Key: key, Value: s.value, Revision: 1})
		}
	}
	s.pages++
	s.lists(len(page.Records))
	return page, nil
}
