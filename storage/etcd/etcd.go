package etcd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/keelson-dev/keelson/internal/pause"
	"github.com/keelson-dev/keelson/storage"
)

// Options tunes a Store; the zero value is ready to use.
type Options struct {
	// Trim is a prefix of all keys of the store that is cut off in etcd. A key without it is refused.
	Trim string
	// Prefix is put in front of all keys, in place of Trim. It should end with a slash: everything else below the same
	// prefix is part of the store.
	Prefix string
	// Buffer is how many changes a stream buffers for its reader; 0 means 16,384.
	Buffer int
	// BufferBytes bounds the keys and values in the buffer, old and new; 0 means 64 MiB. One batch of changes from etcd
	// is always taken.
	BufferBytes int64
	// Logger logs streams that are reopened; nil discards.
	Logger *slog.Logger
}

// Store is a storage.Store in etcd.
type Store struct {
	client  *clientv3.Client
	owned   bool
	keys    keys
	limits  limits
	log     *slog.Logger
	clock   *clock
	leases  *leases
	closing chan struct{} // closed by Close

	mu      sync.Mutex
	closed  bool
	streams map[*stream]struct{}
	newest  int64 // what Revision returned last: all streams must reach it
}

var (
	_ storage.Store     = (*Store)(nil)
	_ storage.Lessor    = (*Store)(nil)
	_ storage.Compactor = (*Store)(nil)
	_ storage.Historian = (*Store)(nil)
)

// New returns a store on a client, which the caller closes after the store. Prefer Open: a plain clientv3 client waits
// for connections forever, and repeats writes that a member gave up on although they may have happened.
func New(client *clientv3.Client, options Options) *Store {
	s := &Store{
		client:  client,
		keys:    keys{trim: options.Trim, prefix: options.Prefix},
		limits:  limits{events: options.Buffer, bytes: options.BufferBytes},
		log:     options.Logger,
		closing: make(chan struct{}),
		streams: map[*stream]struct{}{},
	}
	if s.limits.events <= 0 {
		s.limits.events = 16 << 10
	}
	if s.limits.bytes <= 0 {
		s.limits.bytes = 64 << 20
	}
	if s.log == nil {
		s.log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	s.clock = newClock(s.readRevision)
	s.leases = newLeases(s.grant, time.Now)
	return s
}

// Close ends all streams; every later call fails with storage.ErrClosed. It closes a client made by Open. Closing twice
// does nothing.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	close(s.closing)
	streams := s.streams
	s.streams = map[*stream]struct{}{}
	s.mu.Unlock()

	for stream := range streams {
		stream.Close()
	}
	s.clock.close()
	if !s.owned {
		return nil
	}
	if err := s.client.Close(); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("close the client: %w", err)
	}
	return nil
}

func (s *Store) isClosed() bool {
	select {
	case <-s.closing:
		return true
	default:
		return false
	}
}

// healthKey need not exist: reading it takes a majority of members, and the right to read below the prefix.
const healthKey = "health"

func (s *Store) probeKey() string { return s.keys.prefix + healthKey }

// Ready reports whether etcd answers: it makes a read that needs a majority of the members.
func (s *Store) Ready(ctx context.Context) error {
	if s.isClosed() {
		return storage.ErrClosed
	}
	if _, err := s.readRevision(ctx); err != nil {
		return s.failed(ctx, "health check", err)
	}
	return nil
}

// Revision implements storage.Reader. Concurrent calls share a request.
func (s *Store) Revision(ctx context.Context) (int64, error) {
	if s.isClosed() {
		return 0, storage.ErrClosed
	}
	revision, err := s.clock.read(ctx)
	if err != nil {
		return 0, s.failed(ctx, "read the revision", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if revision > s.newest {
		s.newest = revision
		for stream := range s.streams {
			stream.want(revision)
		}
	}
	return revision, nil
}

func (s *Store) readRevision(ctx context.Context) (int64, error) {
	got, err := s.client.Get(clientv3.WithRequireLeader(ctx), s.probeKey(), clientv3.WithKeysOnly())
	if err != nil {
		return 0, err
	}
	return got.Header.Revision, nil
}

// Get implements storage.Reader.
func (s *Store) Get(ctx context.Context, key string) (storage.Record, error) {
	if s.isClosed() {
		return storage.Record{}, storage.ErrClosed
	}
	at, err := s.keys.encode(key)
	if err != nil {
		return storage.Record{}, fmt.Errorf("get %q: %w", key, storage.ErrNotFound) // no such key can exist
	}
	got, err := s.client.Get(clientv3.WithRequireLeader(ctx), at)
	if err != nil {
		return storage.Record{}, s.failed(ctx, fmt.Sprintf("get %q", key), err)
	}
	if len(got.Kvs) == 0 {
		return storage.Record{}, fmt.Errorf("get %q: %w", key, storage.ErrNotFound)
	}
	return storage.Record{Key: key, Value: value(got.Kvs[0].Value), Revision: got.Kvs[0].ModRevision}, nil
}

// List implements storage.Reader. The whole answer is held in memory, in etcd as well: use a Limit for large lists.
func (s *Store) List(ctx context.Context, prefix string, options storage.ListOptions) (storage.Page, error) {
	op := fmt.Sprintf("list %q", prefix)
	switch {
	case s.isClosed():
		return storage.Page{}, storage.ErrClosed
	case options.Revision < 0: // etcd would read the newest
		return storage.Page{}, fmt.Errorf("%s at %d: %w", op, options.Revision, storage.ErrCompacted)
	}
	where := s.keys.span(prefix, options.After)
	if where.nothing() {
		where = span{s.probeKey(), s.probeKey()} // for the revision, and to see whether it can be read
	}
	got, err := s.client.Get(clientv3.WithRequireLeader(ctx), where.from, clientv3.WithRange(where.end),
		clientv3.WithRev(options.Revision), clientv3.WithLimit(int64(max(options.Limit, 0))))
	if err != nil {
		return storage.Page{}, s.failed(ctx, op, err)
	}
	page := storage.Page{Revision: options.Revision, More: got.More, Records: make([]storage.Record, 0, len(got.Kvs))}
	if page.Revision == 0 {
		page.Revision = got.Header.Revision
	}
	for _, kv := range got.Kvs {
		page.Records = append(page.Records, storage.Record{Key: s.keys.decode(kv.Key), Value: value(kv.Value), Revision: kv.ModRevision})
	}
	return page, nil
}

// value turns nil into an empty value.
func value(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// Create implements storage.Writer.
func (s *Store) Create(ctx context.Context, key string, value []byte) (int64, error) {
	return s.write(ctx, change{verb: "create", key: key, value: value})
}

// Update implements storage.Writer.
func (s *Store) Update(ctx context.Context, key string, value []byte, expected int64) (int64, error) {
	return s.write(ctx, change{verb: "update", key: key, value: value, expected: expected})
}

// Delete implements storage.Writer.
func (s *Store) Delete(ctx context.Context, key string, expected int64) (int64, error) {
	return s.write(ctx, change{verb: "delete", key: key, remove: true, expected: expected})
}

// CreateFor implements storage.Lessor. Records with similar times to live share leases: they may stay for a twentieth
// of that time longer, a minute at most.
func (s *Store) CreateFor(ctx context.Context, key string, value []byte, ttl time.Duration) (int64, error) {
	return s.writeFor(ctx, change{verb: "create", key: key, value: value}, ttl)
}

// UpdateFor implements storage.Lessor, as CreateFor.
func (s *Store) UpdateFor(ctx context.Context, key string, value []byte, expected int64, ttl time.Duration) (int64, error) {
	return s.writeFor(ctx, change{verb: "update", key: key, value: value, expected: expected}, ttl)
}

// writeFor takes a new lease when the shared one has expired, which etcd reports before it writes anything.
func (s *Store) writeFor(ctx context.Context, c change, ttl time.Duration) (int64, error) {
	for {
		if s.isClosed() {
			return 0, storage.ErrClosed
		}
		lease, fresh, err := s.leases.take(ctx, ttl)
		if err != nil {
			return 0, s.failed(ctx, c.op()+": lease", err)
		}
		c.lease = lease
		revision, err := s.write(ctx, c)
		if fresh || !errors.Is(err, rpctypes.ErrLeaseNotFound) {
			return revision, err
		}
		s.leases.drop(lease)
	}
}

func (s *Store) grant(ctx context.Context, ttl time.Duration) (clientv3.LeaseID, error) {
	granted, err := s.client.Grant(clientv3.WithRequireLeader(ctx), int64(ttl/time.Second))
	if err != nil {
		return 0, err
	}
	return granted.ID, nil
}

// change is one write, on condition that the key has the expected revision, 0 for a key that does not exist.
type change struct {
	verb, key string
	value     []byte
	remove    bool
	expected  int64
	lease     clientv3.LeaseID
}

func (c change) op() string { return fmt.Sprintf("%s %q", c.verb, c.key) }

// noLeaderPatience is how long a write waits for a member that knows a leader when etcd refuses it for lack of one.
const (
	noLeaderPatience = 10 * time.Second
	noLeaderInterval = 50 * time.Millisecond
)

func (s *Store) write(ctx context.Context, c change) (int64, error) {
	if s.isClosed() {
		return 0, storage.ErrClosed
	}
	at, err := s.keys.encode(c.key)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", c.op(), err)
	}
	create := c.verb == "create"
	if !create && c.expected <= 0 { // no record has such a revision, but to etcd 0 means that there is no record
		_, err := s.Get(ctx, c.key)
		if err == nil {
			err = storage.ErrConflict
		}
		return 0, fmt.Errorf("%s expected at %d: %w", c.op(), c.expected, err)
	}
	do := clientv3.OpPut(at, string(c.value), clientv3.WithLease(c.lease))
	if c.remove {
		do = clientv3.OpDelete(at)
	}
	condition := clientv3.Compare(clientv3.ModRevision(at), "=", c.expected)
	deadline := time.Now().Add(noLeaderPatience)
	for {
		done, err := s.client.Txn(clientv3.WithRequireLeader(ctx)).If(condition).Then(do).
			Else(clientv3.OpGet(at, clientv3.WithKeysOnly())).Commit()
		switch {
		// A member reports this before it looks at the request.
		case errors.Is(err, rpctypes.ErrNoLeader) && time.Now().Before(deadline) && pause.For(ctx, noLeaderInterval) == nil:
			continue
		case err != nil:
			return 0, s.failed(ctx, c.op(), err)
		case done.Succeeded:
			return done.Header.Revision, nil
		case create:
			return 0, fmt.Errorf("%s: %w", c.op(), storage.ErrExists)
		}
		kvs := done.Responses[0].GetResponseRange().GetKvs()
		if len(kvs) == 0 {
			return 0, fmt.Errorf("%s: %w", c.op(), storage.ErrNotFound)
		}
		return 0, fmt.Errorf("%s: %w: it is at %d, not %d", c.op(), storage.ErrConflict, kvs[0].ModRevision, c.expected)
	}
}
