package transfer_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/memory"
	"github.com/keelson-dev/keelson/storage/transfer"
	"github.com/keelson-dev/keelson/storage/wal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func fill(t *testing.T, s storage.Store, n int) {
	t.Helper()
	for i := range n {
		if _, err := s.Create(t.Context(), fmt.Sprintf("/%c/%d", 'a'+i%3, i), []byte(strings.Repeat("x", i%50))); err != nil {
			t.Fatal(err)
		}
	}
}

func openWal(t *testing.T, o wal.Options) *wal.Store {
	t.Helper()
	s, err := wal.Open(t.TempDir(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Between the backends of this module, in every direction, during writes to the source.
func TestCopy(t *testing.T) {
	const first = 1_000_000
	kinds := map[string]func(*testing.T, int64) storage.Store{
		"memory": func(_ *testing.T, first int64) storage.Store { return memory.New(memory.Options{FirstRevision: first}) },
		"wal":    func(t *testing.T, first int64) storage.Store { return openWal(t, wal.Options{FirstRevision: first}) },
	}
	for fromName, from := range kinds {
		for toName, to := range kinds {
			t.Run(fromName+" to "+toName, func(t *testing.T) {
				ctx := t.Context()
				source, target := from(t, 0), to(t, first)
				fill(t, source, 1500)
				busy, stop := context.WithCancel(ctx)
				writing := make(chan error, 1)
				go func() {
					for i := 0; busy.Err() == nil && i < 5000; i++ {
						if _, err := source.Create(ctx, fmt.Sprintf("/a/while/%d", i), nil); err != nil {
							writing <- err
							return
						}
					}
					writing <- nil
				}()
				var told transfer.Copied
				copied, err := transfer.Copy(ctx, target, source, transfer.CopyOptions{Progress: func(c transfer.Copied) { told = c }})
				stop()
				if err := errors.Join(err, <-writing); err != nil {
					t.Fatal(err)
				}
				if told != copied || copied.Records < 1500 || copied.Behind || copied.Newest != first+copied.Records {
					t.Errorf("Copy = %+v, told %+v", copied, told)
				}
				v, err := transfer.Verify(ctx, transfer.Side{Store: source, Revision: copied.Revision}, transfer.Side{Store: target}, transfer.VerifyOptions{})
				if err != nil || !v.Equal() || v.Err() != nil || v.First != copied.Records || v.Bytes != copied.Bytes {
					t.Errorf("Verify = %+v, %v", v, err)
				}
				_, err = transfer.Copy(ctx, target, source, transfer.CopyOptions{})
				if !errors.Is(err, transfer.ErrNotEmpty) {
					t.Errorf("Copy into a store that is not empty: %v", err)
				}
			})
		}
	}
}

func TestVerify(t *testing.T) {
	a, b := memory.New(memory.Options{}), memory.New(memory.Options{})
	put := func(s *memory.Store, pairs ...string) {
		for _, pair := range pairs {
			key, value, _ := strings.Cut(pair, "=")
			if _, err := s.Create(t.Context(), key, []byte(value)); err != nil {
				t.Fatal(err)
			}
		}
	}
	put(a, "a=1", "b=1", "c=1", "e=1", "z=")
	put(b, "b=1", "c=2", "d=1", "e=1", "z=0", "zz=1")
	want := []transfer.Difference{
		{Key: "a", Kind: transfer.OnlyFirst}, {Key: "c", Kind: transfer.OtherValue}, {Key: "d", Kind: transfer.OnlySecond},
		{Key: "z", Kind: transfer.OtherValue}, {Key: "zz", Kind: transfer.OnlySecond},
	}
	for most, n := range map[int]int{0: 5, 2: 2} {
		v, err := transfer.Verify(t.Context(), transfer.Side{Store: a}, transfer.Side{Store: b}, transfer.VerifyOptions{Most: most})
		if err != nil || v.First != 5 || v.Second != 6 || v.Different != 5 || fmt.Sprint(v.Differences) != fmt.Sprint(want[:n]) {
			t.Errorf("Verify naming %d = %+v, %v; want %v", most, v, err, want)
		}
		var different *transfer.DifferentError
		if !errors.As(v.Err(), &different) || !strings.Contains(v.Err().Error(), `"a" only in the first`) {
			t.Errorf("Err = %v", v.Err())
		}
	}
	// At an old revision and under a prefix they are equal.
	v, err := transfer.Verify(t.Context(), transfer.Side{Store: a}, transfer.Side{Store: b, Revision: 2}, transfer.VerifyOptions{Prefix: "b"})
	if err != nil || !v.Equal() || v.First != 1 || v.Second != 1 {
		t.Errorf("Verify of the prefix b = %+v, %v", v, err)
	}
}

// failing fails its n-th write or list.
type failing struct {
	*memory.Store
	writes, lists int
	err           error
}

func (f *failing) Create(ctx context.Context, key string, value []byte) (int64, error) {
	if f.writes--; f.writes == 0 {
		return 0, f.err
	}
	return f.Store.Create(ctx, key, value)
}

func (f *failing) List(ctx context.Context, prefix string, o storage.ListOptions) (storage.Page, error) {
	if f.lists--; f.lists == 0 {
		return storage.Page{}, f.err
	}
	return f.Store.List(ctx, prefix, o)
}

func TestCopyFails(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct{ writes, lists int }{"write": {700, 0}, "list": {0, 3}} {
		t.Run(name, func(t *testing.T) {
			source := &failing{Store: memory.New(memory.Options{}), lists: c.lists, err: broken}
			fill(t, source, 1500)
			target := &failing{Store: memory.New(memory.Options{}), writes: c.writes, err: broken}
			copied, err := transfer.Copy(t.Context(), target, source, transfer.CopyOptions{Writers: 1})
			if !errors.Is(err, broken) || copied.Records == 0 {
				t.Errorf("Copy = %+v, %v", copied, err)
			}
		})
	}
	t.Run("ended context", func(t *testing.T) {
		source, target := memory.New(memory.Options{}), memory.New(memory.Options{})
		fill(t, source, 1500)
		ctx, cancel := context.WithCancel(t.Context())
		_, err := transfer.Copy(ctx, target, source, transfer.CopyOptions{Progress: func(transfer.Copied) { cancel() }})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("Copy = %v", err)
		}
	})
	t.Run("unreadable", func(t *testing.T) {
		_, err := transfer.Copy(t.Context(), memory.New(memory.Options{}), unreadable{memory.New(memory.Options{})}, transfer.CopyOptions{})
		if !errors.Is(err, storage.ErrUnreadable) || !strings.Contains(err.Error(), `"secret"`) {
			t.Errorf("Copy = %v", err)
		}
	})
}

// unreadable holds one record whose value cannot be read.
type unreadable struct{ *memory.Store }

func (unreadable) List(context.Context, string, storage.ListOptions) (storage.Page, error) {
	return storage.Page{Records: []storage.Record{{Key: "secret", Revision: 1, Err: storage.ErrUnreadable}}, Revision: 1}, nil
}

// lessor records the times to live it was given.
type lessor struct {
	*memory.Store
	lives map[string]time.Duration
}

func (l lessor) CreateFor(ctx context.Context, key string, value []byte, ttl time.Duration) (int64, error) {
	l.lives[key] = ttl
	return l.Create(ctx, key, value)
}

func (l lessor) UpdateFor(ctx context.Context, key string, value []byte, expected int64, _ time.Duration) (int64, error) {
	return l.Update(ctx, key, value, expected)
}

func TestCopyTTL(t *testing.T) {
	source, target := memory.New(memory.Options{}), lessor{memory.New(memory.Options{}), map[string]time.Duration{}}
	fill(t, source, 3)
	_, err := transfer.Copy(t.Context(), target, source, transfer.CopyOptions{Writers: 1, TTL: func(r storage.Record) time.Duration {
		if strings.HasPrefix(r.Key, "/b/") {
			return time.Hour
		}
		return 0
	}})
	if want := map[string]time.Duration{"/b/1": time.Hour}; err != nil || fmt.Sprint(target.lives) != fmt.Sprint(want) {
		t.Errorf("lives %v, %v; want %v", target.lives, err, want)
	}
}

// torn is a store that cannot be listed beyond its first records.
type torn struct {
	storage.Reader
	err error
}

func (f torn) List(ctx context.Context, prefix string, o storage.ListOptions) (storage.Page, error) {
	if o.After != "" {
		return storage.Page{}, f.err
	}
	o.Limit = 2
	return f.Reader.List(ctx, prefix, o)
}

// TestVerifyOfWhatCannotBeRead: unread records count neither as equal nor as different.
func TestVerifyOfWhatCannotBeRead(t *testing.T) {
	whole := memory.New(memory.Options{})
	fill(t, whole, 10)
	broken := torn{whole, errors.New("connection lost")}
	for name, c := range map[string]struct{ a, b storage.Reader }{"first": {broken, whole}, "second": {whole, broken}, "both": {broken, broken}} {
		v, err := transfer.Verify(t.Context(), transfer.Side{Store: c.a}, transfer.Side{Store: c.b}, transfer.VerifyOptions{})
		if !errors.Is(err, broken.err) || v.Different != 0 {
			t.Errorf("%s: %+v, %v", name, v, err)
		}
		if want := map[string]string{"first": "first", "second": "second", "both": "first"}[name] + " store: "; err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	done, err := transfer.Copy(t.Context(), memory.New(memory.Options{}), broken, transfer.CopyOptions{})
	if !errors.Is(err, broken.err) || done.Newest != 0 {
		t.Errorf("copy: %+v, %v", done, err)
	}
}

// TestBehind: a target that begins at the revision of the source is not behind it.
func TestBehind(t *testing.T) {
	for _, c := range []struct {
		begin int64
		want  bool
	}{{10, true}, {11, false}, {12, false}} {
		source := memory.New(memory.Options{})
		fill(t, source, 10)
		if at, err := source.Revision(t.Context()); err != nil || at != 11 {
			t.Fatalf("the source is at %d, %v", at, err)
		}
		done, err := transfer.Copy(t.Context(), memory.New(memory.Options{FirstRevision: c.begin}), source, transfer.CopyOptions{})
		if err != nil || done.Behind != c.want {
			t.Errorf("from %d on: %+v, %v", c.begin, done, err)
		}
	}
}
