package etcd

import (
	"context"
	"fmt"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/keelson-dev/keelson/internal/pause"
)

// Compaction cuts etcd's history from time to time, as API servers do, lest etcd fills up. Several of them, those of
// kube-apiserver included, take turns by a key of etcd's that upstream uses for it.
type Compaction struct {
	store *Store
	every time.Duration
}

const (
	compactEvery = 5 * time.Minute // as upstream
	// compactKey has the revision that was compacted to last; how often it was written is the number of the turn.
	compactKey = "compact_rev_key"
)

// NewCompaction returns a compaction to the revision of one interval ago, each interval; 0 means five minutes.
func NewCompaction(store *Store, every time.Duration) *Compaction {
	if every <= 0 {
		every = compactEvery
	}
	return &Compaction{store: store, every: every}
}

// Run compacts until the context ends, and returns nil then. What fails it tells the store's logger and tries again an
// interval later.
func (c *Compaction) Run(ctx context.Context) error {
	var turn, revision int64 // what to expect, and where to compact to
	for pause.For(ctx, c.every) == nil {
		next, now, err := c.step(ctx, turn, revision)
		switch {
		case ctx.Err() != nil: // the regular end, whatever it broke off
		case err != nil:
			c.store.log.Warn("etcd keeps more history than it should", "error", err)
		default:
			turn, revision = next, now
		}
	}
	return nil
}

// step compacts if nobody else has taken the turn, and returns the next one and the newest revision.
func (c *Compaction) step(ctx context.Context, turn, revision int64) (next, now int64, err error) {
	done, err := c.store.client.Txn(clientv3.WithRequireLeader(ctx)).
		If(clientv3.Compare(clientv3.Version(compactKey), "=", turn)).
		Then(clientv3.OpPut(compactKey, strconv.FormatInt(revision, 10))).
		Else(clientv3.OpGet(compactKey)).Commit()
	if err != nil {
		return 0, 0, c.store.failed(ctx, "take the turn to compact", err)
	}
	now = done.Header.Revision
	if !done.Succeeded {
		for _, kv := range done.Responses[0].GetResponseRange().GetKvs() {
			turn = kv.Version
		}
		return turn, now, nil
	}
	if err := c.store.Compact(ctx, revision); err != nil {
		return 0, 0, fmt.Errorf("compact: %w", err)
	}
	return turn + 1, now, nil
}
