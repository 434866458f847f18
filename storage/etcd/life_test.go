package etcd_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/keelson-dev/keelson/internal/etcdtest"
	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/etcd"
)

// patience is the limit for events that must come; a busy machine is slow.
const patience = 2 * time.Minute

func patient(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func openConfig(t testing.TB, config etcd.Config, options etcd.Options) *etcd.Store {
	t.Helper()
	s, err := etcd.Open(patient(t), config, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

func create(t testing.TB, s storage.Store, key, value string) int64 {
	t.Helper()
	revision, err := s.Create(patient(t), key, []byte(value))
	if err != nil {
		t.Fatalf("Create(%q): %v", key, err)
	}
	return revision
}

func watch(t testing.TB, s storage.Store, prefix string, after int64) storage.Stream {
	t.Helper()
	stream, err := s.Watch(patient(t), prefix, after)
	if err != nil {
		t.Fatalf("Watch(%q, %d): %v", prefix, after, err)
	}
	t.Cleanup(stream.Close)
	return stream
}

func revision(t testing.TB, s storage.Store) int64 {
	t.Helper()
	revision, err := s.Revision(patient(t))
	if err != nil {
		t.Fatalf("Revision: %v", err)
	}
	return revision
}

// until reads changes until the stream has reached a revision.
func until(t testing.TB, stream storage.Stream, revision int64) []storage.Event {
	t.Helper()
	ctx := patient(t)
	var events []storage.Event
	for {
		batch, err := stream.Next(ctx)
		if err != nil {
			t.Fatalf("Next on the way to %d, after %d changes: %v", revision, len(events), err)
		}
		last := batch[len(batch)-1]
		if last.Type == storage.Progress {
			batch = batch[:len(batch)-1]
		}
		events = append(events, batch...)
		if last.Revision >= revision {
			return events
		}
	}
}

func TestTLSAndPassword(t *testing.T) {
	c := etcdtest.Start(t, etcdtest.Options{TLS: true, Password: "s3cret-word"})
	good := etcd.Config{Endpoints: c.Endpoints(), CAFile: c.CAFile(), CertFile: c.CertFile(), KeyFile: c.KeyFile(),
		User: etcdtest.User, Password: "s3cret-word", DialTimeout: 5 * time.Second}
	s := openConfig(t, good, etcd.Options{})
	at := create(t, s, "a", "1")
	stream := watch(t, s, "", at-1)
	if events := until(t, stream, at); len(events) != 1 || events[0].Key != "a" {
		t.Errorf("events: %+v", events)
	}
	c.Kill(t, 0) // etcd keeps its tokens in memory: all are void now
	c.Restart(t, 0)
	at = create(t, s, "b", "2")
	if events := until(t, stream, at); len(events) != 1 || events[0].Key != "b" {
		t.Errorf("events after a restart: %+v", events)
	}

	for name, change := range map[string]func(*etcd.Config){
		"wrong password": func(c *etcd.Config) { c.Password = "wr0ng-word" },
		"no password":    func(c *etcd.Config) { c.User, c.Password = "", "" },
		"no certificate": func(c *etcd.Config) { c.CertFile, c.KeyFile = "", "" },
		"no authority":   func(c *etcd.Config) { c.CAFile = "" },
	} {
		t.Run(name, func(t *testing.T) {
			config := good
			change(&config)
			s, err := etcd.Open(patient(t), config, etcd.Options{})
			if err == nil {
				t.Cleanup(func() { _ = s.Close() })
				_, err = s.Get(patient(t), "a")
				if name == "no password" {
					err = s.Ready(patient(t))
				}
			}
			var told *etcd.Error
			if !errors.As(err, &told) || !strings.Contains(err.Error(), c.Endpoint(0)) {
				t.Fatalf("error %v, want one that names %s", err, c.Endpoint(0))
			}
			if strings.Contains(err.Error(), "-word") {
				t.Errorf("the password is in the error: %v", err)
			}
		})
	}
}

func TestConfig(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	https := []string{"https://127.0.0.1:1"}
	for name, c := range map[string]struct {
		config etcd.Config
		want   string
	}{
		"no endpoints":          {etcd.Config{}, "no endpoints"},
		"no scheme":             {etcd.Config{Endpoints: []string{"127.0.0.1:2379"}}, `"127.0.0.1:2379"`},
		"mixed":                 {etcd.Config{Endpoints: []string{"https://a:1", "http://b:1"}}, "some endpoints"},
		"certificate alone":     {etcd.Config{Endpoints: https, CertFile: empty}, "key file"},
		"no such authority":     {etcd.Config{Endpoints: https, CAFile: filepath.Join(dir, "none")}, "none"},
		"empty authority":       {etcd.Config{Endpoints: https, CAFile: empty}, "no certificates"},
		"empty certificate":     {etcd.Config{Endpoints: https, CertFile: empty, KeyFile: empty}, "client certificate"},
		"certificates for http": {etcd.Config{Endpoints: []string{"http://127.0.0.1:1"}, CAFile: empty}, "without TLS"},
		"password alone":        {etcd.Config{Endpoints: https, Password: "secret"}, "without a user"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := etcd.Open(t.Context(), c.config, etcd.Options{})
			if !errors.Is(err, etcd.ErrConfig) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want ErrConfig with %q", err, c.want)
			}
		})
	}
}

// TestNobodyThere: without an etcd, the error names it and is none of the sentinels.
func TestNobodyThere(t *testing.T) {
	const endpoint = "http://127.0.0.1:1"
	s := openConfig(t, etcd.Config{Endpoints: []string{endpoint}, DialTimeout: time.Second}, etcd.Options{})
	ctx := patient(t)
	_, writing := s.Create(ctx, "a", nil)
	_, reading := s.Get(ctx, "a")
	_, watching := s.Watch(ctx, "", 0)
	for name, err := range map[string]error{"Create": writing, "Get": reading, "Watch": watching, "Ready": s.Ready(ctx)} {
		var told *etcd.Error
		if !errors.As(err, &told) || !strings.Contains(err.Error(), endpoint) || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("%s: error %v, want one that names %s and the cause", name, err, endpoint)
		}
		noSentinel(t, name, err)
	}
	s = openConfig(t, etcd.Config{Endpoints: []string{endpoint}}, etcd.Options{})
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if err := s.Ready(short); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("Ready: error %v, want the context's with the cause", err)
	}
}

func noSentinel(t testing.TB, name string, err error) {
	t.Helper()
	for _, sentinel := range []error{storage.ErrNotFound, storage.ErrExists, storage.ErrConflict, storage.ErrCompacted,
		storage.ErrFutureRevision, storage.ErrClosed, storage.ErrEmptyKey, storage.ErrTooLarge, storage.ErrUnreadable} {
		if errors.Is(err, sentinel) {
			t.Errorf("%s: error %v is %v", name, err, sentinel)
		}
	}
}

func TestSizes(t *testing.T) {
	s := open(t, etcdtest.Start(t, etcdtest.Options{}), etcd.Options{})
	ctx := patient(t)
	start := revision(t, s)
	stream := watch(t, s, "", start)
	var at int64
	for i := range 6 { // 1 MiB plus its previous 1 MiB exceed a message
		value := bytes.Repeat([]byte{byte('a' + i)}, 1<<20)
		var err error
		if i == 0 {
			at, err = s.Create(ctx, "large", value)
		} else {
			at, err = s.Update(ctx, "large", value, at)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	events := until(t, stream, at)
	if len(events) != 6 || events[5].Value[0] != 'f' || events[5].Prev[0] != 'e' || len(events[5].Prev) != 1<<20 {
		t.Errorf("%d events", len(events))
	}
	if again := until(t, watch(t, s, "", start), at); len(again) != 6 { // all from history, in fragments
		t.Errorf("%d events from history", len(again))
	}
	for _, size := range []int{1600 << 10, 3 << 20, 20 << 20} { // etcd's limit, gRPC's at the server, far more
		if _, err := s.Create(ctx, "too large", make([]byte, size)); !errors.Is(err, storage.ErrTooLarge) {
			t.Errorf("Create of %d bytes: %v", size, err)
		}
	}
}

func TestLeases(t *testing.T) {
	c := etcdtest.Start(t, etcdtest.Options{})
	s, client := open(t, c, etcd.Options{}), c.Client(t)
	ctx := patient(t)
	stream := watch(t, s, "", revision(t, s))
	const ttl = 2 * time.Second
	began := time.Now()
	for i := range 3 {
		if _, err := s.CreateFor(ctx, fmt.Sprint("short/", i), nil, ttl-time.Nanosecond); err != nil {
			t.Fatal(err)
		}
	}
	at, err := s.CreateFor(ctx, "kept", []byte("1"), ttl)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Update(ctx, "kept", []byte("2"), at); err != nil {
		t.Fatal(err)
	}
	at = create(t, s, "shortened", "1")
	if _, err := s.UpdateFor(ctx, "shortened", []byte("2"), at, ttl); err != nil {
		t.Fatal(err)
	}
	gone := map[string]bool{}
	for len(gone) < 4 {
		events, err := stream.Next(ctx)
		if err != nil {
			t.Fatalf("deleted so far: %v; %v", gone, err)
		}
		for _, e := range events {
			if e.Type == storage.Delete {
				gone[e.Key] = true
			}
		}
	}
	if lived := time.Since(began); lived < ttl {
		t.Errorf("records lived for %v", lived)
	}
	if gone["kept"] {
		t.Error("a plain update did not make the record stay")
	}

	// Many records with the same time to live share few leases.
	const many = 2500
	for i := range many {
		if _, err := s.CreateFor(ctx, fmt.Sprint("long/", i), nil, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	all, err := client.Leases(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(all.Leases); n < 1 || n > 5 {
		t.Errorf("%d records took %d leases", many, n)
	}
	// A revoked lease is replaced.
	for _, lease := range all.Leases {
		if _, err := client.Revoke(ctx, lease.ID); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.CreateFor(ctx, "after", nil, time.Hour); err != nil {
		t.Errorf("after a lease was revoked: %v", err)
	}
	if _, err := s.CreateFor(ctx, "forever", nil, 1<<63-1); err != nil {
		t.Errorf("longest time: %v", err)
	}
}

func TestHistory(t *testing.T) {
	c := etcdtest.Start(t, etcdtest.Options{})
	s := open(t, c, etcd.Options{})
	ctx := patient(t)
	oldest := func() int64 {
		t.Helper()
		oldest, err := s.Oldest(ctx)
		if err != nil {
			t.Fatalf("Oldest: %v", err)
		}
		return oldest
	}
	if got := oldest(); got != 1 {
		t.Errorf("oldest revision of a fresh etcd: %d", got)
	}
	first := create(t, s, "a", "1")
	stream := watch(t, s, "", first)
	var last int64
	for i := range 10 {
		last = create(t, s, fmt.Sprint("b", i), "")
	}
	if err := s.Compact(ctx, last-2); err != nil {
		t.Fatal(err)
	}
	if got := oldest(); got != last-2 {
		t.Errorf("oldest revision %d, want %d", got, last-2)
	}
	for at := first; at <= last; at++ {
		want := at >= last-2
		_, listing := s.List(ctx, "", storage.ListOptions{Revision: at})
		stream, watching := s.Watch(ctx, "", at)
		if watching == nil {
			if at < last {
				if events := until(t, stream, last); int64(len(events)) != last-at {
					t.Errorf("watch after %d: %d events", at, len(events))
				}
			}
			stream.Close()
		}
		if want && (listing != nil || watching != nil) || !want && (!errors.Is(listing, storage.ErrCompacted) || !errors.Is(watching, storage.ErrCompacted)) {
			t.Errorf("at %d: list %v, watch %v", at, listing, watching)
		}
	}
	for _, at := range []int64{last - 2, 1, 0, -5} {
		if err := s.Compact(ctx, at); err != nil {
			t.Errorf("Compact to %d again: %v", at, err)
		}
	}
	if err := s.Compact(ctx, last+1); !errors.Is(err, storage.ErrFutureRevision) {
		t.Errorf("Compact to the future: %v", err)
	}
	if events := until(t, stream, last); len(events) != 10 { // it was returned before
		t.Errorf("%d events", len(events))
	}
}

// TestCompactedWhileAway: a stream ends with an error if its etcd comes back without the history it needs.
func TestCompactedWhileAway(t *testing.T) {
	c := etcdtest.Start(t, etcdtest.Options{Proxies: true})
	s := open(t, c, etcd.Options{})
	direct, err := clientv3.New(clientv3.Config{Endpoints: []string{c.Direct(0)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = direct.Close() })
	other := etcd.New(direct, etcd.Options{})
	t.Cleanup(func() { _ = other.Close() })

	first := create(t, s, "a", "1")
	stream := watch(t, s, "", first)
	c.CutClients(0, etcdtest.Refuse)
	create(t, other, "b", "")
	last := create(t, other, "c", "")
	if err := other.Compact(patient(t), last); err != nil {
		t.Fatal(err)
	}
	c.CutClients(0, etcdtest.Open)
	for {
		if _, err = stream.Next(patient(t)); err != nil {
			break
		}
	}
	if !errors.Is(err, storage.ErrCompacted) {
		t.Errorf("Next: %v", err)
	}
}

// TestSlowReader: unread changes are bounded by number and by bytes.
func TestSlowReader(t *testing.T) {
	c := etcdtest.Start(t, etcdtest.Options{})
	for name, options := range map[string]etcd.Options{"changes": {Buffer: 10}, "bytes": {BufferBytes: 10 << 10}} {
		t.Run(name, func(t *testing.T) {
			s := open(t, c, options)
			slow := watch(t, s, name, revision(t, s))
			quick := watch(t, s, name, revision(t, s))
			at := create(t, s, name, "")
			for range 30 {
				var err error
				if at, err = s.Update(patient(t), name, make([]byte, 1000), at); err != nil {
					t.Fatal(err)
				}
				until(t, quick, at)
			}
			// etcd serves one watch before the other: wait until the slow one was cut off or has everything.
			ctx := patient(t)
			var last int64
			for {
				events, err := slow.Next(ctx)
				if errors.Is(err, storage.ErrCompacted) {
					break
				}
				if err != nil || last >= at {
					t.Fatalf("a reader that is too slow was told of everything up to %d: %v", last, err)
				}
				last = events[len(events)-1].Revision
			}
			if _, err := slow.Next(ctx); !errors.Is(err, storage.ErrCompacted) {
				t.Errorf("second Next: %v", err)
			}
		})
	}
}

// TestTwoServers: two stores on one etcd see each other's writes, and progress over keys of others.
func TestTwoServers(t *testing.T) {
	c := etcdtest.Start(t, etcdtest.Options{})
	one := open(t, c, etcd.Options{Prefix: "/registry/", Trim: "/registry/"})
	two := open(t, c, etcd.Options{Prefix: "/registry/", Trim: "/registry/"})
	other := open(t, c, etcd.Options{Prefix: "/elsewhere/", Trim: "/registry/"})
	start := revision(t, one)
	stream := watch(t, two, "/registry/", start)
	at := create(t, one, "/registry/pods/a", "1")
	if got, err := two.Get(patient(t), "/registry/pods/a"); err != nil || string(got.Value) != "1" || got.Revision != at {
		t.Errorf("Get = %+v, %v", got, err)
	}
	for range 20 {
		create(t, other, fmt.Sprint("/registry/pods/", revision(t, one)), "")
	}
	if events := until(t, stream, revision(t, two)); len(events) != 1 || events[0].Key != "/registry/pods/a" {
		t.Errorf("events: %+v", events)
	}
	raw, err := c.Client(t).Get(patient(t), "/elsewhere/pods/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil || raw.Count != 20 {
		t.Errorf("below the other prefix: %v, %v", raw, err)
	}
	if page, err := other.List(patient(t), "", storage.ListOptions{Limit: 1}); err != nil || !page.More || !strings.HasPrefix(page.Records[0].Key, "/registry/pods/") {
		t.Errorf("List = %+v, %v", page, err)
	}
	if _, err := one.Create(patient(t), "/outside", nil); err == nil {
		t.Error("a key that does not begin with Trim was written")
	}
}

// TestForeignTransaction: changes of one revision are delivered together.
func TestForeignTransaction(t *testing.T) {
	c := etcdtest.Start(t, etcdtest.Options{})
	s := open(t, c, etcd.Options{})
	stream := watch(t, s, "k/", revision(t, s))
	var puts []clientv3.Op
	for i := range 100 {
		puts = append(puts, clientv3.OpPut(fmt.Sprint("k/", i), strings.Repeat("x", 10_000)))
	}
	done, err := c.Client(t).Txn(patient(t)).Then(puts...).Commit()
	if err != nil {
		t.Fatal(err)
	}
	events, err := stream.Next(patient(t))
	if err != nil || len(events) != 100 {
		t.Fatalf("%d events, %v", len(events), err)
	}
	for _, e := range events {
		if e.Revision != done.Header.Revision {
			t.Errorf("revision %d, want %d", e.Revision, done.Header.Revision)
		}
	}
}
