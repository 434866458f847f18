package etcd

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/keelson-dev/keelson/storage"
)

// first is the revision of an empty etcd.
const first = 1

// Compact implements storage.Compactor. It applies to everything in etcd, not only to this store's keys. With
// authentication on, etcd requires the root role for it.
func (s *Store) Compact(ctx context.Context, revision int64) error {
	if s.isClosed() {
		return storage.ErrClosed
	}
	if revision <= 0 {
		return nil
	}
	_, err := s.client.Compact(clientv3.WithRequireLeader(ctx), revision)
	if err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
		return s.failed(ctx, fmt.Sprintf("compact to %d", revision), err)
	}
	return nil
}

// Oldest implements storage.Historian.
func (s *Store) Oldest(ctx context.Context) (int64, error) {
	const op = "find the oldest revision"
	if s.isClosed() {
		return 0, storage.ErrClosed
	}
	_, err := s.client.Get(clientv3.WithRequireLeader(ctx), s.probeKey(), clientv3.WithRev(first), clientv3.WithCountOnly())
	if err == nil {
		return first, nil
	}
	if !errors.Is(err, rpctypes.ErrCompacted) {
		return 0, s.failed(ctx, op, err)
	}
	watcher := clientv3.NewWatcher(s.client)
	defer func() { _ = watcher.Close() }() // its responses have been read
	watching, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	for response := range watcher.Watch(watching, s.probeKey(), clientv3.WithRev(first)) {
		if response.CompactRevision > 0 {
			return response.CompactRevision, nil
		}
		if err := response.Err(); err != nil {
			return 0, s.failed(ctx, op, err)
		}
	}
	return 0, s.failed(ctx, op, errWatchEnded)
}
