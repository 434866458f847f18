package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/etcd"
)

// member is a member of an etcd whose answers the test controls.
type member struct {
	pb.UnimplementedKVServer
	pb.UnimplementedWatchServer
	pb.UnimplementedLeaseServer
	pb.UnimplementedAuthServer

	endpoint string

	mu       sync.Mutex
	revision int64 // of answers without a handler
	reads    []*pb.RangeRequest
	writes   []*pb.TxnRequest
	grants   []int64 // times to live
	cuts     []int64 // compactions
	watches  []*pb.WatchCreateRequest

	read  func(*pb.RangeRequest) (*pb.RangeResponse, error)
	write func(*pb.TxnRequest) (*pb.TxnResponse, error)
	grant func() error
	cut   func() error
	// watch answers the n-th request for a watch, from 0. With nil the watch begins; with an empty answer it hangs.
	watch func(n int, request *pb.WatchCreateRequest) []*pb.WatchResponse

	hangs chan struct{} // if set, reads and logins hang after a send here

	sending sync.Mutex
	newest  pb.Watch_WatchServer // of the watches
}

// tell sends an answer to the newest watch.
func (m *member) tell(t *testing.T, answer *pb.WatchResponse) {
	t.Helper()
	m.sending.Lock()
	defer m.sending.Unlock()
	if err := m.newest.Send(answer); err != nil {
		t.Error(err)
	}
}

func newMember(t *testing.T) *member {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := &member{endpoint: "http://" + listener.Addr().String(), revision: 10}
	server := grpc.NewServer()
	pb.RegisterKVServer(server, m)
	pb.RegisterWatchServer(server, m)
	pb.RegisterLeaseServer(server, m)
	pb.RegisterAuthServer(server, m)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return m
}

func (m *member) open(t *testing.T, options etcd.Options) *etcd.Store {
	t.Helper()
	return openConfig(t, etcd.Config{Endpoints: []string{m.endpoint}}, options)
}

// locked calls f with the member locked.
func (m *member) locked(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
}

func (m *member) header() *pb.ResponseHeader { return &pb.ResponseHeader{Revision: m.revision} }

// hang announces a request and waits until its client is gone.
func (m *member) hang(ctx context.Context) error {
	select {
	case m.hangs <- struct{}{}:
	case <-ctx.Done():
	}
	<-ctx.Done()
	return ctx.Err()
}

func (m *member) Authenticate(ctx context.Context, _ *pb.AuthenticateRequest) (*pb.AuthenticateResponse, error) {
	return nil, m.hang(ctx)
}

func (m *member) Range(ctx context.Context, r *pb.RangeRequest) (*pb.RangeResponse, error) {
	if m.hangs != nil {
		return nil, m.hang(ctx)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reads = append(m.reads, r)
	if m.read != nil {
		if answer, err := m.read(r); answer != nil || err != nil {
			return answer, err
		}
	}
	return &pb.RangeResponse{Header: m.header()}, nil
}

func (m *member) Txn(_ context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.writes = append(m.writes, r)
	if m.write != nil {
		if answer, err := m.write(r); answer != nil || err != nil {
			return answer, err
		}
	}
	m.revision++
	return &pb.TxnResponse{Header: m.header(), Succeeded: true}, nil
}

func (m *member) Compact(_ context.Context, r *pb.CompactionRequest) (*pb.CompactionResponse, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cuts = append(m.cuts, r.Revision)
	if m.cut != nil {
		if err := m.cut(); err != nil {
			return nil, err
		}
	}
	return &pb.CompactionResponse{Header: m.header()}, nil
}

func (m *member) LeaseGrant(_ context.Context, r *pb.LeaseGrantRequest) (*pb.LeaseGrantResponse, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.grants = append(m.grants, r.TTL)
	if m.grant != nil {
		if err := m.grant(); err != nil {
			return nil, err
		}
	}
	return &pb.LeaseGrantResponse{Header: m.header(), ID: int64(len(m.grants)), TTL: r.TTL}, nil
}

func (m *member) Watch(stream pb.Watch_WatchServer) error {
	for {
		request, err := stream.Recv()
		if err != nil {
			return nil //nolint:nilerr // the client went
		}
		m.mu.Lock()
		answers := []*pb.WatchResponse{}
		switch r := request.RequestUnion.(type) {
		case *pb.WatchRequest_CreateRequest:
			answers = append(answers, &pb.WatchResponse{Header: m.header(), Created: true})
			m.watches = append(m.watches, r.CreateRequest)
			if m.watch != nil {
				if decided := m.watch(len(m.watches)-1, r.CreateRequest); decided != nil {
					answers = decided
				}
			}
		case *pb.WatchRequest_ProgressRequest:
			answers = append(answers, &pb.WatchResponse{Header: m.header(), WatchId: clientv3.InvalidWatchID})
		}
		m.mu.Unlock()
		m.sending.Lock()
		m.newest = stream
		for _, answer := range answers {
			if err = stream.Send(answer); err != nil {
				break
			}
		}
		m.sending.Unlock()
		if err != nil {
			return err
		}
	}
}

func (m *member) changed(at int64, key string) *pb.WatchResponse {
	return &pb.WatchResponse{Header: &pb.ResponseHeader{Revision: at}, Events: []*mvccpb.Event{{
		Kv: &mvccpb.KeyValue{Key: []byte(key), Value: []byte("v"), ModRevision: at, CreateRevision: at, Version: 1},
	}}}
}

func (m *member) began() *pb.WatchResponse {
	return &pb.WatchResponse{Header: m.header(), Created: true}
}

// refused is the answer to a request for a watch that etcd refuses.
func (m *member) refused(reason string) *pb.WatchResponse {
	return &pb.WatchResponse{Header: m.header(), Created: true, Canceled: true, CancelReason: reason, WatchId: clientv3.InvalidWatchID}
}

func (m *member) ended(reason string) *pb.WatchResponse {
	return &pb.WatchResponse{Header: m.header(), Canceled: true, CancelReason: reason}
}

// operations are all operations of a store.
func operations(ctx context.Context, s *etcd.Store) map[string]func() error {
	return map[string]func() error{
		"health check":             func() error { return s.Ready(ctx) },
		"read the revision":        func() error { _, err := s.Revision(ctx); return err },
		`get "k"`:                  func() error { _, err := s.Get(ctx, "k"); return err },
		`list "k"`:                 func() error { _, err := s.List(ctx, "k", storage.ListOptions{}); return err },
		`create "k"`:               func() error { _, err := s.Create(ctx, "k", nil); return err },
		`update "k"`:               func() error { _, err := s.Update(ctx, "k", nil, 3); return err },
		`delete "k"`:               func() error { _, err := s.Delete(ctx, "k", 3); return err },
		`create "k": lease`:        func() error { _, err := s.CreateFor(ctx, "k", nil, time.Hour); return err },
		`update "k": lease`:        func() error { _, err := s.UpdateFor(ctx, "k", nil, 3, time.Hour); return err },
		"compact to 5":             func() error { return s.Compact(ctx, 5) },
		"find the oldest revision": func() error { _, err := s.Oldest(ctx); return err },
		`watch "k" after 3`: func() error {
			stream, err := s.Watch(ctx, "k", 3)
			if err == nil {
				stream.Close()
			}
			return err
		},
	}
}

// TestRefused: every refusal by etcd is an error that names the operation, the endpoint and the reason, and wraps no
// sentinel of the store.
func TestRefused(t *testing.T) {
	m := newMember(t)
	s := m.open(t, etcd.Options{})
	refusal := rpctypes.ErrGRPCPermissionDenied
	m.locked(func() {
		m.read = func(r *pb.RangeRequest) (*pb.RangeResponse, error) {
			if r.Revision == 0 && string(r.Key) != "k" && !slices.ContainsFunc(m.reads[:len(m.reads)-1], func(r *pb.RangeRequest) bool { return r.Revision != 0 }) {
				return nil, nil // the revision, before the history
			}
			return nil, refusal
		}
		m.write = func(*pb.TxnRequest) (*pb.TxnResponse, error) { return nil, refusal }
		m.grant, m.cut = func() error { return refusal }, func() error { return refusal }
	})
	all := operations(patient(t), s)
	order := []string{`watch "k" after 3`} // the revision can still be read
	for op := range all {
		if op != order[0] {
			order = append(order, op)
		}
	}
	for _, op := range order {
		err := all[op]()
		var told *etcd.Error
		if !errors.As(err, &told) || !errors.Is(err, rpctypes.ErrPermissionDenied) || told.Op != op || !slices.Equal(told.Endpoints, []string{m.endpoint}) ||
			err.Error() != fmt.Sprintf("etcd at %s: %s: etcdserver: permission denied", m.endpoint, op) {
			t.Errorf("%s: %v", op, err)
		}
		noSentinel(t, op, err)
	}
}

// TestClosedStore: every operation of a closed store fails with ErrClosed, and a client that the store did not make
// stays open.
func TestClosedStore(t *testing.T) {
	m := newMember(t)
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{m.endpoint}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, s := range []*etcd.Store{m.open(t, etcd.Options{}), etcd.New(client, etcd.Options{})} {
		stream, err := s.Watch(patient(t), "k", 10)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := s.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		}
		for op, do := range operations(patient(t), s) {
			if err := do(); !errors.Is(err, storage.ErrClosed) {
				t.Errorf("%s: %v", op, err)
			}
		}
		if _, err := stream.Next(patient(t)); !errors.Is(err, storage.ErrClosed) {
			t.Errorf("Next: %v", err)
		}
	}
	if _, err := client.Get(patient(t), "k"); err != nil {
		t.Errorf("the client that was not the store's: %v", err)
	}
}

// TestWritesOnce: a write is sent once, whatever the answer, unless the member knows no leader: it reports that before
// it looks at the write.
func TestWritesOnce(t *testing.T) {
	for name, c := range map[string]struct {
		err    error
		asked  int
		says   string
		is     error
		closed bool
	}{
		"given up":      {err: status.Error(codes.Canceled, "context canceled"), asked: 1, says: "given up by the member: context canceled"},
		"out of time":   {err: status.Error(codes.DeadlineExceeded, "too late"), asked: 1, says: "given up by the member: too late"},
		"timed out":     {err: rpctypes.ErrGRPCTimeout, asked: 1, says: "etcdserver: request timed out"},
		"leader lost":   {err: rpctypes.ErrGRPCLeaderChanged, asked: 1, says: "etcdserver: leader changed"},
		"internal":      {err: status.Error(codes.Internal, "oops"), asked: 1, says: "oops"},
		"too large":     {err: rpctypes.ErrGRPCRequestTooLarge, asked: 1, is: storage.ErrTooLarge, says: `create "k": `},
		"no leader yet": {err: rpctypes.ErrGRPCNoLeader, asked: 4},
	} {
		m := newMember(t)
		m.write = func(*pb.TxnRequest) (*pb.TxnResponse, error) {
			if len(m.writes) < 4 {
				return nil, c.err
			}
			return nil, nil
		}
		s := m.open(t, etcd.Options{})
		at, err := s.Create(patient(t), "k", []byte("v"))
		m.locked(func() {
			if len(m.writes) != c.asked {
				t.Errorf("%s: asked %d times", name, len(m.writes))
			}
		})
		switch {
		case c.says == "":
			if err != nil || at != 11 {
				t.Errorf("%s: %d, %v", name, at, err)
			}
			continue
		case err == nil || !strings.Contains(err.Error(), c.says) || !errors.Is(err, c.is) && c.is != nil:
			t.Errorf("%s: %v", name, err)
		}
		if c.is == nil {
			noSentinel(t, name, err)
		}
	}
	// A caller that gives up gets its context's error, also while no leader is known.
	m := newMember(t)
	ctx, cancel := context.WithCancel(t.Context())
	m.write = func(*pb.TxnRequest) (*pb.TxnResponse, error) {
		if len(m.writes) == 2 {
			cancel()
		}
		return nil, rpctypes.ErrGRPCNoLeader
	}
	if _, err := m.open(t, etcd.Options{}).Create(ctx, "k", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
}

// TestConditions: a write is conditional on the key's revision, and reports what it finds instead.
func TestConditions(t *testing.T) {
	m := newMember(t)
	s := m.open(t, etcd.Options{Trim: "/a/", Prefix: "/b/"})
	ctx := patient(t)
	answer := func(kvs ...*mvccpb.KeyValue) {
		m.locked(func() {
			m.write = func(*pb.TxnRequest) (*pb.TxnResponse, error) {
				return &pb.TxnResponse{Header: m.header(), Responses: []*pb.ResponseOp{{Response: &pb.ResponseOp_ResponseRange{ResponseRange: &pb.RangeResponse{Kvs: kvs}}}}}, nil
			}
		})
	}
	for _, c := range []struct {
		kvs  []*mvccpb.KeyValue
		do   func() error
		want error
		says string
	}{
		{[]*mvccpb.KeyValue{{ModRevision: 7}}, func() error { _, err := s.Create(ctx, "/a/k", nil); return err }, storage.ErrExists, `create "/a/k"`},
		{[]*mvccpb.KeyValue{{ModRevision: 7}}, func() error { _, err := s.Update(ctx, "/a/k", nil, 5); return err }, storage.ErrConflict, "it is at 7, not 5"},
		{[]*mvccpb.KeyValue{{ModRevision: 7}}, func() error { _, err := s.Delete(ctx, "/a/k", 6); return err }, storage.ErrConflict, "it is at 7, not 6"},
		{nil, func() error { _, err := s.Update(ctx, "/a/k", nil, 5); return err }, storage.ErrNotFound, `update "/a/k"`},
		{nil, func() error { _, err := s.Delete(ctx, "/a/k", 5); return err }, storage.ErrNotFound, `delete "/a/k"`},
		{nil, func() error { _, err := s.Update(ctx, "/a/k", nil, 0); return err }, storage.ErrNotFound, "expected at 0"},
		{nil, func() error { _, err := s.Create(ctx, "/a/", nil); return err }, nil, ""},
		{nil, func() error { _, err := s.Create(ctx, "", nil); return err }, storage.ErrEmptyKey, ""},
		{nil, func() error { _, err := s.Create(ctx, "/c", nil); return err }, nil, `key "/c" does not begin with "/a/"`},
		{nil, func() error { _, err := s.Get(ctx, "/c"); return err }, storage.ErrNotFound, ""},
		{nil, func() error { _, err := s.List(ctx, "/a/", storage.ListOptions{Revision: -1}); return err }, storage.ErrCompacted, `list "/a/" at -1`},
		{nil, func() error { _, err := s.Watch(ctx, "/a/", -1); return err }, storage.ErrCompacted, `watch "/a/" after -1`},
		{nil, func() error { _, err := s.Watch(ctx, "/a/", 99); return err }, storage.ErrFutureRevision, "the newest is 10"},
	} {
		answer(c.kvs...)
		if err := c.do(); err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v, want %v with %q", err, c.want, c.says)
		}
	}
	m.locked(func() { m.writes, m.write = nil, nil })
	if at, err := s.Update(ctx, "/a/k", []byte("v"), 5); err != nil || at != 11 {
		t.Errorf("update: %d, %v", at, err)
	}
	m.locked(func() {
		compare, put := m.writes[0].Compare[0], m.writes[0].Success[0].GetRequestPut()
		if string(compare.Key) != "/b/k" || compare.GetModRevision() != 5 || compare.Target != pb.Compare_MOD || compare.Result != pb.Compare_EQUAL ||
			string(put.Key) != "/b/k" || string(put.Value) != "v" || put.Lease != 0 {
			t.Errorf("asked for %v", m.writes[0])
		}
	})
}
