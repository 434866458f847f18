package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/keelson-dev/keelson/internal/etcdtest"
	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/etcd"
)

// traffic writes through stores while a test disturbs their etcd, and records what was acknowledged.
type traffic struct {
	t      *testing.T
	wg     sync.WaitGroup
	stop   chan struct{}
	acked  atomic.Int64
	failed atomic.Int64

	mu     sync.Mutex
	writes map[int64]string // revision to key=value; deleted keys have no value
}

// attempt bounds one write: longer than an election.
const attempt = 20 * time.Second

func disturb(t *testing.T, stores ...*etcd.Store) *traffic {
	d := &traffic{t: t, stop: make(chan struct{}), writes: map[int64]string{}}
	for i, s := range stores {
		for w := range 3 {
			d.wg.Go(func() { d.write(s, fmt.Sprintf("k/%d-%d", i, w)) })
		}
	}
	return d
}

// write creates, updates and deletes keys that no other goroutine writes. After a write of unknown outcome it goes on
// to the next key; any sentinel means that the store repeated a write, or lost one.
func (d *traffic) write(s *etcd.Store, prefix string) {
	for n := 0; ; n++ {
		key := fmt.Sprintf("%s/%d", prefix, n)
		var at int64
		for step := range 4 {
			select {
			case <-d.stop:
				return
			default:
			}
			value := fmt.Sprint(step)
			ctx, cancel := context.WithTimeout(context.Background(), attempt)
			var err error
			switch step {
			case 0:
				at, err = s.Create(ctx, key, []byte(value))
			case 3:
				value = ""
				at, err = s.Delete(ctx, key, at)
			default:
				at, err = s.Update(ctx, key, []byte(value), at)
			}
			cancel()
			if err != nil {
				d.failed.Add(1)
				noSentinel(d.t, fmt.Sprintf("step %d of %s", step, key), err)
				break
			}
			d.mu.Lock()
			d.writes[at] = key + "=" + value
			d.mu.Unlock()
			d.acked.Add(1)
		}
	}
}

// progress waits until n more writes were acknowledged.
func (d *traffic) progress(n int64) {
	d.t.Helper()
	until := d.acked.Load() + n
	deadline := time.Now().Add(patience)
	for d.acked.Load() < until {
		if time.Now().After(deadline) {
			d.t.Fatalf("writes do not go on: %d acknowledged, %d failed", d.acked.Load(), d.failed.Load())
		}
		time.Sleep(5 * time.Millisecond) // polls
	}
}

func (d *traffic) end() {
	close(d.stop)
	d.wg.Wait()
	d.t.Logf("%d writes acknowledged, %d of unknown outcome", d.acked.Load(), d.failed.Load())
}

// readers reads streams while writes go on: one that is not read ends after so many changes, and a fast machine makes
// more of them than that. The function it returns takes what all of them told up to a revision.
func readers(t *testing.T, streams []storage.Stream) (upTo func(revision int64) [][]storage.Event) {
	ctx, stop := context.WithCancel(t.Context())
	told := make([][]storage.Event, len(streams))
	ended := make([]error, len(streams))
	var wg sync.WaitGroup
	for i, stream := range streams {
		wg.Go(func() {
			for ended[i] == nil {
				var batch []storage.Event
				batch, ended[i] = stream.Next(ctx)
				told[i] = append(told[i], batch...)
			}
		})
	}
	t.Cleanup(func() { stop(); wg.Wait() })
	return func(revision int64) [][]storage.Event {
		t.Helper()
		stop()
		wg.Wait()
		for i, stream := range streams {
			if !errors.Is(ended[i], context.Canceled) {
				t.Fatalf("stream %d ended after %d events: %v", i, len(told[i]), ended[i])
			}
			if n := len(told[i]); n == 0 || told[i][n-1].Revision < revision {
				told[i] = append(told[i], until(t, stream, revision)...)
			}
			told[i] = slices.DeleteFunc(told[i], func(e storage.Event) bool { return e.Type == storage.Progress })
		}
		return told
	}
}

// check compares streams that were open all the time with history and with what was acknowledged.
func (d *traffic) check(s *etcd.Store, start int64, upTo func(revision int64) [][]storage.Event) {
	d.t.Helper()
	now := revision(d.t, s)
	history := until(d.t, watch(d.t, s, "k/", start), now)
	told := map[int64]string{}
	for _, e := range history {
		told[e.Revision] = e.Key + "=" + string(e.Value)
	}
	if len(told) != len(history) {
		d.t.Errorf("%d events of %d revisions", len(history), len(told))
	}
	for at, write := range d.writes {
		if told[at] != write {
			d.t.Errorf("the acknowledged write %s of revision %d was lost: there is %q", write, at, told[at])
		}
	}
	for i, events := range upTo(now) {
		if !reflect.DeepEqual(events, history) {
			d.t.Errorf("stream %d told %d events, history %d, the first difference: %s", i, len(events), len(history), difference(events, history))
		}
	}
}

func difference(a, b []storage.Event) string {
	for i := range min(len(a), len(b)) {
		if !reflect.DeepEqual(a[i], b[i]) {
			return fmt.Sprintf("%d: %+v and %+v", i, a[i], b[i])
		}
	}
	return "one goes on"
}

// TestMembersFail: whatever fails among members and their network, streams have neither gap nor duplicate, no
// acknowledged write is lost, and no write happens twice.
func TestMembersFail(t *testing.T) {
	c := etcdtest.Start(t, etcdtest.Options{Members: 3})
	stores := []*etcd.Store{open(t, c, etcd.Options{})}
	for i := range c.Members() { // one client per member, which it prefers
		endpoints := append(c.Endpoints()[i:], c.Endpoints()[:i]...)
		stores = append(stores, openConfig(t, etcd.Config{Endpoints: endpoints}, etcd.Options{}))
	}
	start := revision(t, stores[0])
	var streams []storage.Stream
	for _, s := range stores {
		streams = append(streams, watch(t, s, "k/", start), watch(t, s, "k/", start))
	}
	read := readers(t, streams)
	d := disturb(t, stores[0], stores[1])
	const some = 100
	d.progress(some)
	for _, step := range []struct {
		name string
		do   func(leader, follower int)
		undo func(leader, follower int)
	}{
		{"the leader is killed", func(l, _ int) { c.Kill(t, l) }, func(l, _ int) { c.Restart(t, l) }},
		{"a follower is killed", func(_, f int) { c.Kill(t, f) }, func(_, f int) { c.Restart(t, f) }},
		{"the leader ends", func(l, _ int) { c.Stop(t, l) }, func(l, _ int) { c.Restart(t, l) }},
		{"the leader is alone", func(l, _ int) { c.Isolate(l, etcdtest.Refuse) }, func(int, int) { c.Heal() }},
		{"the leader's packets are lost", func(l, _ int) { c.Isolate(l, etcdtest.Stall) }, func(int, int) { c.Heal() }},
		{"a follower is alone", func(_, f int) { c.Isolate(f, etcdtest.Refuse) }, func(int, int) { c.Heal() }},
		{"leader and follower do not see each other", func(l, f int) { c.Cut(l, f, etcdtest.Stall) }, func(int, int) { c.Heal() }},
		{"clients are cut off from the leader", func(l, _ int) { c.CutClients(l, etcdtest.Refuse) }, func(int, int) { c.Heal() }},
	} {
		leader := c.Leader(t)
		step.do(leader, (leader+1)%c.Members())
		d.progress(some)
		step.undo(leader, (leader+1)%c.Members())
		d.progress(some)
		t.Logf("%s: %d acknowledged, %d unknown", step.name, d.acked.Load(), d.failed.Load())
	}
	d.end()
	d.check(stores[0], start, read)
}

// TestNoMajority: without a majority reads and writes fail, in time; streams continue when it is back.
func TestNoMajority(t *testing.T) {
	c := etcdtest.Start(t, etcdtest.Options{Members: 3})
	s := open(t, c, etcd.Options{})
	at := create(t, s, "k/a", "1")
	stream := watch(t, s, "k/", at)
	for i := range 3 {
		c.Isolate(i, etcdtest.Refuse)
	}
	// Members notice only after a while; until then, a write may wait for a majority.
	for {
		err := s.Ready(patient(t))
		if err != nil {
			noSentinel(t, "Ready", err)
			break
		}
	}
	_, err := s.Create(patient(t), "k/b", nil)
	if err == nil {
		t.Error("a write without a majority was acknowledged")
	} else {
		noSentinel(t, "Create", err)
	}
	c.Heal()
	c.Leader(t)
	var last int64
	for last == 0 {
		if last, err = s.Create(patient(t), "k/c", nil); errors.Is(err, storage.ErrExists) {
			t.Fatal("the write was repeated")
		}
	}
	events := until(t, stream, last)
	if n := len(events); n == 0 || events[n-1].Key != "k/c" {
		t.Errorf("events: %+v", events)
	}
}

// TestKilledAndRestarted: requests wait for a single member that dies and comes back.
func TestKilledAndRestarted(t *testing.T) {
	c := etcdtest.Start(t, etcdtest.Options{})
	s := open(t, c, etcd.Options{})
	start := revision(t, s)
	read := readers(t, []storage.Stream{watch(t, s, "k/", start), watch(t, s, "k/", start)})
	d := disturb(t, s)
	for range 3 {
		d.progress(50)
		c.Kill(t, 0)
		c.Restart(t, 0)
	}
	d.progress(50)
	d.end()
	d.check(s, start, read)
}

// TestFrozenMember: a member that stops answering is abandoned when its keepalive fails.
func TestFrozenMember(t *testing.T) {
	if testing.Short() {
		t.Skip("gRPC gives a silent connection ten seconds")
	}
	c := etcdtest.Start(t, etcdtest.Options{Members: 3})
	s := openConfig(t, etcd.Config{Endpoints: c.Endpoints(), KeepaliveTime: 10 * time.Second, KeepaliveTimeout: time.Second}, etcd.Options{})
	start := revision(t, s)
	var streams []storage.Stream
	for range c.Members() { // round-robin: one for each member
		streams = append(streams, watch(t, s, "k/", start))
	}
	read := readers(t, streams)
	d := disturb(t, s)
	d.progress(50)
	leader := c.Leader(t)
	c.Pause(t, leader)
	d.progress(50)
	read(revision(t, s)) // while the member stands still
	c.Resume(t, leader)
	d.progress(50)
	d.end()
}

// TestCompaction: two servers compact the same etcd, one at a time, and keep the history of one interval.
func TestCompaction(t *testing.T) {
	c := etcdtest.Start(t, etcdtest.Options{})
	ctx, cancel := context.WithCancel(patient(t))
	defer cancel()
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	const every = 30 * time.Millisecond
	one, two := open(t, c, etcd.Options{}), open(t, c, etcd.Options{})
	for _, s := range []*etcd.Store{one, two} {
		running.Go(func() {
			if err := etcd.NewCompaction(s, every).Run(ctx); err != nil {
				t.Errorf("Run: %v", err)
			}
		})
	}
	stream := watch(t, one, "k/", revision(t, one))
	var at, last int64
	for n := 0; ; n++ {
		last = create(t, two, fmt.Sprint("k/", n), "")
		until(t, stream, last)
		var err error
		if at, err = one.Oldest(ctx); err != nil {
			t.Fatal(err)
		}
		if at > 10 {
			break
		}
	}
	if now := revision(t, two); at > now {
		t.Errorf("compacted to %d, the newest is %d", at, now)
	}
	turns, err := c.Client(t).Get(ctx, "compact_rev_key")
	if err != nil || len(turns.Kvs) != 1 || turns.Kvs[0].Version < 2 {
		t.Errorf("turns: %v, %v", turns, err)
	}
}

// TestLimitedUser: rights for its prefix are all that a store needs, except for compaction.
func TestLimitedUser(t *testing.T) {
	c := etcdtest.Start(t, etcdtest.Options{Password: "r00t-word"})
	client, ctx := c.Client(t), patient(t)
	if _, err := client.RoleAdd(ctx, "apiserver"); err != nil {
		t.Fatal(err)
	}
	if _, err := client.RoleGrantPermission(ctx, "apiserver", "/registry/", clientv3.GetPrefixRangeEnd("/registry/"), clientv3.PermissionType(clientv3.PermReadWrite)); err != nil {
		t.Fatal(err)
	}
	if _, err := client.UserAdd(ctx, "keelson", "its-word"); err != nil {
		t.Fatal(err)
	}
	if _, err := client.UserGrantRole(ctx, "keelson", "apiserver"); err != nil {
		t.Fatal(err)
	}
	config := etcd.Config{Endpoints: c.Endpoints(), User: "keelson", Password: "its-word"}
	s := openConfig(t, config, etcd.Options{Trim: "/registry/", Prefix: "/registry/"})
	if err := s.Ready(ctx); err != nil {
		t.Error(err)
	}
	stream := watch(t, s, "/registry/", revision(t, s))
	at, err := s.CreateFor(ctx, "/registry/a", nil, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if events := until(t, stream, at); len(events) != 1 {
		t.Errorf("events: %+v", events)
	}
	if err := s.Compact(ctx, at); err == nil || !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("Compact: %v", err)
	}
	if _, err := client.Compact(ctx, at); err != nil {
		t.Fatal(err)
	}
	if oldest, err := s.Oldest(ctx); err != nil || oldest != at {
		t.Errorf("Oldest = %d, %v", oldest, err)
	}
	whole := openConfig(t, config, etcd.Options{})
	_, listing := whole.List(ctx, "", storage.ListOptions{})
	_, watching := whole.Watch(ctx, "", 0)
	for name, err := range map[string]error{"List": listing, "Watch": watching, "Ready": whole.Ready(ctx)} {
		if err == nil || !strings.Contains(err.Error(), "permission denied") || !strings.Contains(err.Error(), c.Endpoint(0)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
