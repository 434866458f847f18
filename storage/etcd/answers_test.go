package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/etcd"
)

// TestLeaseGoesFirst: a lease that etcd no longer knows is replaced, once; leases are a little longer than asked for.
func TestLeaseGoesFirst(t *testing.T) {
	m := newMember(t)
	s := m.open(t, etcd.Options{})
	ctx := patient(t)
	lost := 0
	m.write = func(*pb.TxnRequest) (*pb.TxnResponse, error) {
		if lost > 0 {
			lost--
			return nil, rpctypes.ErrGRPCLeaseNotFound
		}
		return nil, nil
	}
	for i, c := range []struct {
		ttl  time.Duration
		lost int
		used int64 // the lease, 0 to fail
	}{{time.Hour, 0, 1}, {time.Hour, 0, 1}, {time.Hour, 1, 2}, {time.Hour, 0, 2}, {time.Hour, 2, 0}, {time.Hour, 0, 3}, {100 * time.Second, 0, 4}, {10 * time.Second, 0, 5}} {
		m.locked(func() { lost = c.lost })
		_, err := s.CreateFor(ctx, "k", nil, c.ttl)
		m.locked(func() {
			used := m.writes[len(m.writes)-1].Success[0].GetRequestPut().Lease
			if (err == nil) != (c.used != 0) || err == nil && used != c.used || err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
				t.Errorf("write %d: under lease %d, %v", i, used, err)
			}
		})
	}
	m.locked(func() {
		if want := []int64{3660, 3660, 3660, 105, 10}; !slices.Equal(m.grants, want) {
			t.Errorf("granted for %v seconds", m.grants)
		}
	})
	// A caller that does not wait for a lease leaves the turn to others.
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := s.CreateFor(ended, "k", nil, time.Minute); !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
	if _, err := s.CreateFor(ctx, "k", nil, time.Minute); err != nil {
		t.Errorf("after that: %v", err)
	}
}

// TestWatchGivenUp: a watch that etcd does not begin ends with its context and leaks nothing.
func TestWatchGivenUp(t *testing.T) {
	m := newMember(t)
	ctx, cancel := context.WithCancel(t.Context())
	m.watch = func(n int, _ *pb.WatchCreateRequest) []*pb.WatchResponse {
		if n > 0 {
			return nil
		}
		cancel()
		return []*pb.WatchResponse{}
	}
	s := m.open(t, etcd.Options{})
	var told *etcd.Error
	if stream, err := s.Watch(ctx, "k", 10); stream != nil || !errors.Is(err, context.Canceled) || !errors.As(err, &told) || told.Op != `watch "k" after 10` {
		t.Errorf("Watch: %v, %v", stream, err)
	}
	stream := watch(t, s, "k", 10)
	m.locked(func() { m.revision = 12 })
	if at := revision(t, s); at != 12 {
		t.Errorf("revision %d", at)
	}
	until(t, stream, 12)
}

// TestReopened: a watch that etcd ends continues where it was once a member answers, and logs it. If etcd has gone back
// or refuses permanently, the stream ends.
func TestReopened(t *testing.T) {
	for name, c := range map[string]struct {
		now     int64 // the revision at the second attempt
		refuses int   // number of refusals
		reads   error // the stream's error, if it ends
		forGood bool
		want    error
		says    string
	}{
		"at once":      {now: 12},
		"further":      {now: 99},
		"after a time": {now: 12, refuses: 2},
		"went back":    {now: 11, want: storage.ErrCompacted, says: "etcd went back to 11"},
		"for good":     {now: 12, forGood: true, want: rpctypes.ErrPermissionDenied, says: "permission denied"},
		"all for good": {now: 12, forGood: true, reads: rpctypes.ErrGRPCPermissionDenied, refuses: 1 << 30, want: rpctypes.ErrPermissionDenied, says: "permission denied"},
	} {
		m := newMember(t)
		m.watch = func(n int, _ *pb.WatchCreateRequest) []*pb.WatchResponse {
			switch {
			case n == 0:
				return []*pb.WatchResponse{m.began(), m.changed(12, "k1")}
			case c.forGood:
				return []*pb.WatchResponse{m.refused("etcdserver: permission denied")}
			}
			return []*pb.WatchResponse{m.began(), m.changed(13, "k2")}
		}
		log := &lines{}
		s := m.open(t, etcd.Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
		stream := watch(t, s, "k", 10)
		next := func() (string, error) {
			events, err := stream.Next(patient(t))
			if err != nil {
				return "", err
			}
			return events[0].Key, nil
		}
		if key, err := next(); key != "k1" {
			t.Errorf("%s: first %s, %v", name, key, err)
		}
		m.locked(func() {
			m.revision = c.now
			m.read = func(*pb.RangeRequest) (*pb.RangeResponse, error) {
				if c.refuses--; c.refuses < 0 {
					return nil, nil
				}
				if c.reads != nil {
					return nil, c.reads
				}
				return nil, status.Error(codes.Unknown, "not now")
			}
		})
		m.tell(t, m.ended("etcdserver: no leader"))
		key, err := next()
		if c.want != nil {
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %s, %v", name, key, err)
			}
			continue
		}
		if key != "k2" {
			t.Errorf("%s: then %s, %v", name, key, err)
		}
		m.locked(func() {
			if len(m.watches) != 2 || m.watches[0].StartRevision != 11 || m.watches[1].StartRevision != 13 || !m.watches[1].PrevKv || !m.watches[1].Fragment || string(m.watches[1].Key) != "k" || string(m.watches[1].RangeEnd) != "l" {
				t.Errorf("%s: asked for %v", name, m.watches)
			}
			if c.refuses > 0 {
				t.Errorf("%s: %d refusals are left", name, c.refuses)
			}
		})
		if text := log.text(); strings.Count(text, "watch is opened anew") != 1 || !strings.Contains(text, "next=13") {
			t.Errorf("%s: told %s", name, text)
		}
	}
}

// TestClosedWhileReopened: a stream that is closed while no member answers ends at once.
func TestClosedWhileReopened(t *testing.T) {
	m := newMember(t)
	log := &lines{}
	s := m.open(t, etcd.Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
	stream := watch(t, s, "k", 10)
	asked := make(chan struct{}, 1)
	m.locked(func() {
		m.read = func(*pb.RangeRequest) (*pb.RangeResponse, error) {
			select {
			case asked <- struct{}{}:
			default:
			}
			return nil, status.Error(codes.Unknown, "not now")
		}
	})
	m.tell(t, m.ended("etcdserver: no leader"))
	<-asked
	stream.Close()
	if _, err := stream.Next(patient(t)); !errors.Is(err, storage.ErrClosed) {
		t.Errorf("Next: %v", err)
	}
}

// TestCloseEndsRequests: a pending request for the revision fails when the store is closed.
func TestCloseEndsRequests(t *testing.T) {
	m := newMember(t)
	m.hangs = make(chan struct{})
	s := m.open(t, etcd.Options{})
	told := make(chan error, 1)
	go func() {
		_, err := s.Revision(patient(t))
		told <- err
	}()
	<-m.hangs
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := <-told; !errors.Is(err, storage.ErrClosed) {
		t.Errorf("Revision: %v", err)
	}
}

// TestLoginGivenUp: a login that hangs ends with the context of Open, and so does the client.
func TestLoginGivenUp(t *testing.T) {
	m := newMember(t)
	m.hangs = make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-m.hangs
		cancel()
	}()
	s, err := etcd.Open(ctx, etcd.Config{Endpoints: []string{m.endpoint}, User: "ann", Password: "secret"}, etcd.Options{})
	if s != nil || !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "secret") {
		t.Errorf("%v, %v", s, err)
	}
}

// TestWatchesComeToTheRevision: a stream reaches each revision that was returned, even before it began. A stream from
// the newest revision asks for no history; one that cannot know its start is refused.
func TestWatchesComeToTheRevision(t *testing.T) {
	m := newMember(t)
	s := m.open(t, etcd.Options{})
	m.locked(func() { m.revision = 20 })
	if at := revision(t, s); at != 20 {
		t.Errorf("revision %d", at)
	}
	for after, reads := range map[int64]int{20: 1, 15: 2} {
		m.locked(func() { m.reads = nil })
		stream := watch(t, s, "k", after)
		m.locked(func() {
			if len(m.reads) != reads {
				t.Errorf("after %d: %d reads", after, len(m.reads))
			}
		})
		if after < 20 {
			until(t, stream, 20)
		}
	}
	m.locked(func() {
		m.read = func(*pb.RangeRequest) (*pb.RangeResponse, error) { return nil, rpctypes.ErrGRPCPermissionDenied }
	})
	if _, err := s.Watch(patient(t), "k", 20); !errors.Is(err, rpctypes.ErrPermissionDenied) || !strings.Contains(err.Error(), "read the revision") {
		t.Errorf("Watch: %v", err)
	}
}

// TestLimits: the defaults are as documented.
func TestLimits(t *testing.T) {
	m := newMember(t)
	for _, c := range []struct {
		set    etcd.Options
		events int
		bytes  int64
	}{{etcd.Options{}, 16384, 64 << 20}, {etcd.Options{Buffer: -1, BufferBytes: -1}, 16384, 64 << 20}, {etcd.Options{Buffer: 1, BufferBytes: 2}, 1, 2}} {
		if events, bytes := etcd.Limits(m.open(t, c.set)); events != c.events || bytes != c.bytes {
			t.Errorf("%+v: %d, %d", c.set, events, bytes)
		}
	}
}

// lines collects what is logged.
type lines struct {
	mu   sync.Mutex
	data strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.data.Write(p)
}

func (l *lines) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.data.String()
}

// TestNothingToWatch: a stream of keys that cannot be in the store follows the revision without a watch in etcd.
func TestNothingToWatch(t *testing.T) {
	m := newMember(t)
	s := m.open(t, etcd.Options{Trim: "/registry/", Prefix: "/r/"})
	stream := watch(t, s, "/elsewhere/", 10)
	for _, at := range []int64{12, 15} {
		m.locked(func() { m.revision = at })
		if now := revision(t, s); now != at {
			t.Errorf("revision %d, want %d", now, at)
		}
		events, err := stream.Next(patient(t))
		if err != nil || len(events) != 1 || events[0].Type != storage.Progress || events[0].Revision != at {
			t.Errorf("told %v, %v", events, err)
		}
	}
	page, err := s.List(patient(t), "/elsewhere/", storage.ListOptions{})
	if err != nil || len(page.Records) != 0 || page.Revision != 15 {
		t.Errorf("list: %+v, %v", page, err)
	}
	m.locked(func() {
		if len(m.watches) != 0 {
			t.Errorf("watched: %v", m.watches)
		}
		if last := m.reads[len(m.reads)-1]; string(last.Key) != "/r/health" || string(last.RangeEnd) != "/r/health" {
			t.Errorf("read: %v", last)
		}
	})
	stream.Close()
	if _, err := stream.Next(patient(t)); !errors.Is(err, storage.ErrClosed) {
		t.Errorf("Next: %v", err)
	}
}

// TestProgress: a stream whose keys do not change reaches the returned revision, because it asks etcd for progress.
func TestProgress(t *testing.T) {
	m := newMember(t)
	s := m.open(t, etcd.Options{})
	stream := watch(t, s, "k", 10)
	for _, at := range []int64{20, 21, 30} {
		m.locked(func() { m.revision = at })
		if now := revision(t, s); now != at {
			t.Errorf("revision %d, want %d", now, at)
		}
		events, err := stream.Next(patient(t))
		if err != nil || len(events) != 1 || events[0].Type != storage.Progress || events[0].Revision != at {
			t.Errorf("told %v, %v", events, err)
		}
	}
}

// TestOldest: etcd reports what it has compacted when a watch asks for more; any other end of that watch is an error.
func TestOldest(t *testing.T) {
	for name, c := range map[string]struct {
		compacted bool
		answers   func(*member) []*pb.WatchResponse
		want      int64
		says      string
	}{
		"all is there": {want: 1},
		"compacted": {compacted: true, want: 7, answers: func(m *member) []*pb.WatchResponse {
			return []*pb.WatchResponse{m.began(), {Header: m.header(), Canceled: true, CompactRevision: 7}}
		}},
		"refused": {compacted: true, says: "permission denied", answers: func(m *member) []*pb.WatchResponse {
			return []*pb.WatchResponse{m.refused("etcdserver: permission denied")}
		}},
	} {
		m := newMember(t)
		m.read = func(r *pb.RangeRequest) (*pb.RangeResponse, error) {
			if c.compacted && r.Revision == 1 {
				return nil, rpctypes.ErrGRPCCompacted
			}
			return nil, nil
		}
		if c.answers != nil {
			m.watch = func(int, *pb.WatchCreateRequest) []*pb.WatchResponse { return c.answers(m) }
		}
		got, err := m.open(t, etcd.Options{}).Oldest(patient(t))
		if got != c.want || c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "find the oldest revision")) {
			t.Errorf("%s: %d, %v", name, got, err)
		}
	}
	m := newMember(t)
	ctx, cancel := context.WithCancel(t.Context())
	m.read = func(*pb.RangeRequest) (*pb.RangeResponse, error) { return nil, rpctypes.ErrGRPCCompacted }
	m.watch = func(int, *pb.WatchCreateRequest) []*pb.WatchResponse {
		cancel()
		return []*pb.WatchResponse{}
	}
	if _, err := m.open(t, etcd.Options{}).Oldest(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
}

// TestCompactionsTurns: a turn is taken under the number of the previous one; a turn that another server took, or that
// failed, does not count. Each compacts to the newest revision of one turn ago.
func TestCompactionsTurns(t *testing.T) {
	m := newMember(t)
	ctx, cancel := context.WithCancel(patient(t))
	defer cancel()
	type turn struct{ version, revision string }
	var turns []turn
	const last = 7
	m.write = func(r *pb.TxnRequest) (*pb.TxnResponse, error) {
		n := len(turns)
		turns = append(turns, turn{fmt.Sprint(r.Compare[0].GetVersion()), string(r.Success[0].GetRequestPut().Value)})
		m.revision = int64(100 * (n + 1))
		switch n {
		case 2: // another server's
			return &pb.TxnResponse{Header: m.header(), Responses: []*pb.ResponseOp{{Response: &pb.ResponseOp_ResponseRange{ResponseRange: &pb.RangeResponse{
				Kvs: []*mvccpb.KeyValue{{Version: 42}},
			}}}}}, nil
		case 4:
			return nil, status.Error(codes.Unknown, "not now")
		case last:
			cancel()
		}
		return &pb.TxnResponse{Header: m.header(), Succeeded: true}, nil
	}
	m.cut = func() error {
		if len(turns) == 6 {
			return status.Error(codes.Unknown, "not this time")
		}
		return nil
	}
	log := &lines{}
	s := m.open(t, etcd.Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
	if err := etcd.NewCompaction(s, time.Millisecond).Run(ctx); err != nil {
		t.Errorf("Run: %v", err)
	}
	m.locked(func() {
		want := []turn{{"0", "0"}, {"1", "100"}, {"2", "200"}, {"42", "300"}, {"43", "400"}, {"43", "400"}, {"43", "400"}, {"44", "700"}}
		if !slices.Equal(turns[:last+1], want) {
			t.Errorf("turns %v", turns)
		}
		// The last one may be interrupted by the context.
		if cuts := m.cuts; len(cuts) < 4 || !slices.Equal(cuts[:4], []int64{100, 300, 400, 400}) {
			t.Errorf("compacted to %v", cuts)
		}
	})
	text := log.text()
	if strings.Count(text, "compacting etcd's history failed") != 2 || !strings.Contains(text, "take the turn to compact: ") || !strings.Contains(text, "compact to 400: ") {
		t.Errorf("told: %s", text)
	}
}

// TestOpenGivenUp: a store whose context ends is not opened, and leaks nothing.
func TestOpenGivenUp(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s, err := etcd.Open(ctx, etcd.Config{Endpoints: []string{"http://127.0.0.1:1"}}, etcd.Options{})
	var told *etcd.Error
	if s != nil || !errors.Is(err, context.Canceled) || !errors.As(err, &told) || told.Op != "connect" {
		t.Errorf("%v, %v", s, err)
	}
}

// TestWatchRefused: if etcd refuses to begin a watch, Watch fails and says so.
func TestWatchRefused(t *testing.T) {
	m := newMember(t)
	m.watch = func(int, *pb.WatchCreateRequest) []*pb.WatchResponse {
		return []*pb.WatchResponse{m.refused("etcdserver: permission denied")}
	}
	var told *etcd.Error
	if stream, err := m.open(t, etcd.Options{}).Watch(patient(t), "k", 10); stream != nil || !errors.Is(err, rpctypes.ErrPermissionDenied) || !errors.As(err, &told) || told.Op != `watch "k" after 10` {
		t.Errorf("%v, %v", stream, err)
	}
}
