package encryption_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/encryption"
	"github.com/keelson-dev/keelson/storage/encryption/aes"
	"github.com/keelson-dev/keelson/storage/memory"
)

var errNone = errors.New("no matching prefix found")

// all gives every key the same transformer.
func all(t encryption.Transformer) encryption.Transformers {
	return encryption.TransformersFunc(func(string) encryption.Transformer { return t })
}

func gcm(t testing.TB, b byte) encryption.Transformer {
	t.Helper()
	transformer, err := aes.NewGCM(key(b))
	if err != nil {
		t.Fatal(err)
	}
	return transformer
}

func named(t testing.TB, names string) encryption.Transformer {
	t.Helper()
	var choices []encryption.Choice
	for _, b := range []byte(names) {
		choices = append(choices, encryption.Choice{Prefix: string(b) + ":", Transformer: gcm(t, b)})
	}
	return encryption.FirstOf(errors.New("no matching key was found for the provided AES transformer"), choices...)
}

// switched is transformers that a test changes.
type switched struct{ encryption.Transformer }

func (s *switched) For(key string) encryption.Transformer {
	if strings.HasPrefix(key, "/secrets/") {
		return s.Transformer
	}
	return nil
}

func opened(t testing.TB) *memory.Store {
	t.Helper()
	inner := memory.New(memory.Options{})
	t.Cleanup(func() { inner.Close() })
	return inner
}

func create(t testing.TB, s storage.Store, key, value string) int64 {
	t.Helper()
	revision, err := s.Create(t.Context(), key, []byte(value))
	if err != nil {
		t.Fatal(err)
	}
	return revision
}

func TestOnlyWhatIsChosen(t *testing.T) {
	inner := opened(t)
	s := encryption.New(inner, &switched{named(t, "a")})
	create(t, s, "/secrets/one", "plain")
	create(t, s, "/pods/one", "plain")
	for key, want := range map[string]bool{"/secrets/one": false, "/pods/one": true} {
		raw, err := inner.Get(t.Context(), key)
		if err != nil || strings.Contains(string(raw.Value), "plain") != want {
			t.Errorf("%s is stored as %q, %v", key, raw.Value, err)
		}
		if r, err := s.Get(t.Context(), key); err != nil || string(r.Value) != "plain" {
			t.Errorf("%s is read as %q, %v", key, r.Value, err)
		}
	}
}

// TestUnreadable: what cannot be read is an error of its record alone, and can be deleted.
func TestUnreadable(t *testing.T) {
	const message = "no matching key was found for the provided AES transformer"
	inner := opened(t)
	keys := &switched{named(t, "a")}
	s := encryption.New(inner, keys)
	start, err := s.Revision(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	create(t, s, "/secrets/a", "value a")
	keys.Transformer = named(t, "b")
	lost := create(t, s, "/secrets/b", "value b")
	keys.Transformer = named(t, "a")
	create(t, s, "/secrets/c", "value c")

	r, err := s.Get(t.Context(), "/secrets/b")
	if !errors.Is(err, storage.ErrUnreadable) || err.Error() != message || r.Key != "/secrets/b" || r.Revision != lost || r.Value != nil {
		t.Errorf("Get = %+v, %v", r, err)
	}
	page, err := s.List(t.Context(), "/secrets/", storage.ListOptions{})
	if err != nil || len(page.Records) != 3 {
		t.Fatalf("List = %+v, %v", page, err)
	}
	for i, want := range []string{"value a", "", "value c"} {
		r := page.Records[i]
		if string(r.Value) != want || errors.Is(r.Err, storage.ErrUnreadable) != (want == "") || r.Err != nil && r.Err.Error() != message {
			t.Errorf("List has %q, %v at %s", r.Value, r.Err, r.Key)
		}
	}
	if _, err := s.(storage.Refresher).Stale(t.Context(), "/secrets/b"); !errors.Is(err, storage.ErrUnreadable) {
		t.Errorf("Stale: %v", err)
	}
	if _, err := s.Update(t.Context(), "/secrets/b", []byte("found"), lost); err != nil {
		t.Errorf("Update: %v", err)
	}
	found, err := s.Get(t.Context(), "/secrets/b")
	if err != nil || string(found.Value) != "found" {
		t.Errorf("Get = %+v, %v", found, err)
	}
	if _, err := s.Delete(t.Context(), "/secrets/b", found.Revision); err != nil {
		t.Errorf("Delete: %v", err)
	}
	checkEvents(t, s, start)
}

// checkEvents checks what a watch tells of TestUnreadable.
func checkEvents(t *testing.T, s storage.Store, after int64) {
	t.Helper()
	stream, err := s.Watch(t.Context(), "/secrets/", after)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	var told []storage.Event
	for len(told) < 5 {
		events, err := stream.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		told = append(told, slices.DeleteFunc(events, func(e storage.Event) bool { return e.Type == storage.Progress })...)
	}
	for i, want := range []struct {
		event       storage.EventType
		value, prev string
		unreadable  bool
	}{
		{event: storage.Put, value: "value a"},
		{event: storage.Put, unreadable: true},
		{event: storage.Put, value: "value c"},
		{event: storage.Put, value: "found"}, // what was there nobody can tell
		{event: storage.Delete, prev: "found"},
	} {
		e := told[i]
		if e.Type != want.event || string(e.Value) != want.value || string(e.Prev) != want.prev ||
			errors.Is(e.Err, storage.ErrUnreadable) != want.unreadable {
			t.Errorf("event %d = %+v", i, e)
		}
	}
}

func TestFirstOf(t *testing.T) {
	a, b := gcm(t, 'a'), gcm(t, 'b')
	seal := func(transformer encryption.Transformer) []byte {
		sealed, err := transformer.Seal(t.Context(), nil, "/k", []byte("v"))
		if err != nil {
			t.Fatal(err)
		}
		return sealed
	}
	wrap := func(prefix string, in encryption.Transformer) encryption.Choice {
		return encryption.Choice{Prefix: prefix, Transformer: in}
	}
	identity := wrap("", encryption.Identity{})
	inA, inB := seal(encryption.FirstOf(nil, wrap("k8s:enc:x:", a))), seal(encryption.FirstOf(nil, wrap("k8s:enc:x:", b)))
	const forged = "cipher: message authentication failed"
	for name, c := range map[string]struct {
		from   []encryption.Choice
		stored []byte
		stale  bool
		err    string
	}{
		"first":                     {from: []encryption.Choice{wrap("k8s:enc:x:", a), identity}, stored: inA},
		"same prefix, second":       {from: []encryption.Choice{wrap("k8s:enc:x:", b), wrap("k8s:enc:x:", a)}, stored: inA, stale: true},
		"plain after encrypted":     {from: []encryption.Choice{wrap("k8s:enc:x:", a), identity}, stored: []byte("v"), stale: true},
		"encrypted after plain":     {from: []encryption.Choice{identity, wrap("k8s:enc:x:", a)}, stored: inA, stale: true},
		"other prefix":              {from: []encryption.Choice{wrap("k8s:enc:y:", a)}, stored: inA, err: errNone.Error()},
		"other key":                 {from: []encryption.Choice{wrap("k8s:enc:x:", b), identity}, stored: inA, err: forged},
		"same reason twice":         {from: []encryption.Choice{wrap("k8s:enc:x:", b), wrap("k8s:enc:x:", b)}, stored: inA, err: forged},
		"two reasons":               {from: []encryption.Choice{wrap("k8s:enc:x:", b), wrap("k8s:enc:", named(t, "c"))}, stored: inA, err: "[" + forged + ", no matching key was found for the provided AES transformer]"},
		"identity and encrypted":    {from: []encryption.Choice{identity}, stored: inB, err: errNone.Error()},
		"nothing to choose from":    {stored: inB, err: errNone.Error()},
		"shorter than every prefix": {from: []encryption.Choice{wrap("k8s:enc:x:", a)}, stored: []byte("k8s"), err: errNone.Error()},
	} {
		value, stale, err := encryption.FirstOf(errNone, c.from...).Open(t.Context(), "/k", c.stored)
		switch {
		case c.err != "":
			if err == nil || err.Error() != c.err {
				t.Errorf("%s: error %v, want %s", name, err, c.err)
			}
		case err != nil || string(value) != "v" || stale != c.stale:
			t.Errorf("%s: %q, stale %v, %v", name, value, stale, err)
		}
	}
	if _, err := encryption.FirstOf(errNone).Seal(t.Context(), nil, "/k", nil); !errors.Is(err, errNone) {
		t.Errorf("sealing with nothing: %v", err)
	}
	if _, _, err := (encryption.Identity{}).Open(t.Context(), "/k", inA); !errors.Is(err, encryption.ErrEncrypted) {
		t.Errorf("identity: %v", err)
	}
}

// Stores with some of the optional interfaces.
type (
	leases   struct{ *memory.Store }
	compacts struct{}
	recalls  struct{}
)

func (s leases) CreateFor(ctx context.Context, key string, value []byte, _ time.Duration) (int64, error) {
	return s.Create(ctx, key, value)
}

func (s leases) UpdateFor(ctx context.Context, key string, value []byte, expected int64, _ time.Duration) (int64, error) {
	return s.Update(ctx, key, value, expected)
}
func (compacts) Compact(context.Context, int64) error { return nil }
func (recalls) Oldest(context.Context) (int64, error) { return 7, nil }

// plain has only the methods of a Store.
type plain struct{ storage.Store }

func TestOptional(t *testing.T) {
	bare := plain{opened(t)}
	lease := storage.Lessor(leases{opened(t)})
	for name, c := range map[string]struct {
		inner                    storage.Store
		lease, compact, historic bool
	}{
		"none": {inner: bare},
		"lease": {inner: struct {
			plain
			storage.Lessor
		}{bare, lease}, lease: true},
		"compact": {inner: struct {
			plain
			compacts
		}{bare, compacts{}}, compact: true},
		"historic": {inner: struct {
			plain
			recalls
		}{bare, recalls{}}, historic: true},
		"lease, compact": {inner: struct {
			plain
			storage.Lessor
			compacts
		}{bare, lease, compacts{}}, lease: true, compact: true},
		"lease, historic": {inner: struct {
			plain
			storage.Lessor
			recalls
		}{bare, lease, recalls{}}, lease: true, historic: true},
		"compact, historic": {inner: struct {
			plain
			compacts
			recalls
		}{bare, compacts{}, recalls{}}, compact: true, historic: true},
		"all": {inner: struct {
			plain
			storage.Lessor
			compacts
			recalls
		}{bare, lease, compacts{}, recalls{}}, lease: true, compact: true, historic: true},
	} {
		s := encryption.New(c.inner, all(named(t, "a")))
		_, lease := storage.As[storage.Lessor](s)
		_, compact := storage.As[storage.Compactor](s)
		past, historic := storage.As[storage.Historian](s)
		_, refresh := storage.As[storage.Refresher](s)
		if lease != c.lease || compact != c.compact || historic != c.historic || !refresh {
			t.Errorf("%s: lease %v, compact %v, historic %v, refresh %v", name, lease, compact, historic, refresh)
		}
		if historic {
			if oldest, err := past.Oldest(t.Context()); oldest != 7 || err != nil {
				t.Errorf("%s: Oldest = %d, %v", name, oldest, err)
			}
		}
	}
}

func TestLeasesAreEncrypted(t *testing.T) {
	inner := leases{opened(t)}
	s := encryption.New(inner, all(named(t, "a")))
	revision, err := s.(storage.Lessor).CreateFor(t.Context(), "/k", []byte("plain one"), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		raw, err := inner.Get(t.Context(), "/k")
		if err != nil || !strings.HasPrefix(string(raw.Value), "a:") || strings.Contains(string(raw.Value), "plain") {
			t.Errorf("stored %q, %v", raw.Value, err)
		}
		if revision, err = s.(storage.Lessor).UpdateFor(t.Context(), "/k", []byte("plain two"), revision, time.Minute); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLeasesThatCannotBeEncrypted: nothing is stored.
func TestLeasesThatCannotBeEncrypted(t *testing.T) {
	inner, broken := leases{opened(t)}, errors.New("no key")
	s := encryption.New(inner, all(encryption.FirstOf(broken))).(storage.Lessor)
	if _, err := s.CreateFor(t.Context(), "/k", []byte("plain"), time.Minute); !errors.Is(err, broken) {
		t.Errorf("CreateFor: %v", err)
	}
	if _, err := inner.Get(t.Context(), "/k"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("something is stored: %v", err)
	}
	revision, err := inner.Create(t.Context(), "/k", []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.UpdateFor(t.Context(), "/k", []byte("plain"), revision, time.Minute); !errors.Is(err, broken) {
		t.Errorf("UpdateFor: %v", err)
	}
	if r, err := inner.Get(t.Context(), "/k"); err != nil || r.Revision != revision {
		t.Errorf("it was written: %+v, %v", r, err)
	}
}

type failing struct{ plain }

var errFull = errors.New("disk full")

func (failing) Err() error { return errFull }

func TestErr(t *testing.T) {
	bare := plain{opened(t)}
	if err := storage.Err(encryption.New(bare, all(nil))); err != nil {
		t.Errorf("Err of a store that does not know: %v", err)
	}
	if err := storage.Err(encryption.New(failing{bare}, all(nil))); !errors.Is(err, errFull) {
		t.Errorf("Err: %v", err)
	}
}

// blocking opens nothing before its context ends.
type blocking struct{ encryption.Identity }

func (blocking) Open(ctx context.Context, _ string, _ []byte) ([]byte, bool, error) {
	<-ctx.Done()
	return nil, false, errors.New("gave up")
}

// TestEndedContext: who does not wait for a transformer is told that, and misses nothing.
func TestEndedContext(t *testing.T) {
	keys := &switched{named(t, "a")}
	s := encryption.New(opened(t), keys)
	start, err := s.Revision(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	revision := create(t, s, "/secrets/a", "one")
	if _, err := s.Update(t.Context(), "/secrets/a", []byte("two"), revision); err != nil {
		t.Fatal(err)
	}
	stream, err := s.Watch(t.Context(), "/secrets/", start)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	keys.Transformer = blocking{}
	for name, f := range map[string]func(context.Context) error{
		"Get":  func(ctx context.Context) error { _, err := s.Get(ctx, "/secrets/a"); return err },
		"List": func(ctx context.Context) error { _, err := s.List(ctx, "/", storage.ListOptions{}); return err },
		"Next": func(ctx context.Context) error { _, err := stream.Next(ctx); return err },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		if err := f(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
	}
	keys.Transformer = named(t, "a")
	events, err := stream.Next(t.Context())
	if err != nil || len(events) != 2 || string(events[0].Value) != "one" || string(events[1].Value) != "two" || string(events[1].Prev) != "one" {
		t.Errorf("Next = %+v, %v", events, err)
	}
}

// TestMoved: stored forms are bound to the backend's keys.
func TestMoved(t *testing.T) {
	inner := opened(t)
	a := named(t, "a")
	s := encryption.New(inner, encryption.Moved(all(a), "/registry/", "/other/"))
	for key, bound := range map[string]string{"/registry/secrets/one": "/other/secrets/one", "/elsewhere": "/elsewhere"} {
		create(t, s, key, "value")
		raw, err := inner.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if value, _, err := a.Open(t.Context(), bound, raw.Value); err != nil || string(value) != "value" {
			t.Errorf("%s is not bound to %s: %q, %v", key, bound, value, err)
		}
		if r, err := s.Get(t.Context(), key); err != nil || string(r.Value) != "value" {
			t.Errorf("%s = %q, %v", key, r.Value, err)
		}
	}
	if encryption.Moved(all(nil), "/registry/", "/other/").For("/registry/a") != nil {
		t.Error("a transformer for what has none")
	}
}
