package etcd

import (
	"context"
	"fmt"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/keelson-dev/keelson/internal/pause"
)

// Compaction compacts etcd's history periodically, as API servers do, so that etcd does not fill up. Several of them,
// including those of kube-apiserver, take turns through the key that upstream uses for it.
type Compaction struct {
	store *Store
	every time.Duration
}

const (
	compactEvery = 5 * time.Minute // as upstream
	// compactKey holds the revision compacted to last; its version is the number of the turn.
	compactKey = "compact_rev_key"
)

// NewCompaction returns a compaction that runs once per interval and compacts to the revision of one interval ago. 0
// means five minutes.
func NewCompaction(store *Store, every time.Duration) *Compaction {
	if every <= 0 {
		every = compactEvery
	}
	return &Compaction{store: store, every: every}
}

// Run compacts until the context ends, then returns nil. Failures are logged and retried one interval later.
func (c *Compaction) Run(ctx context.Context) error {
	var turn, revision int64 // the expected turn, and the revision to compact to
	for pause.For(ctx, c.every) == nil {
		next, now, err := c.step(ctx, turn, revision)
		switch {
		case ctx.Err() != nil: // a regular end, even if it interrupted a request
		case err != nil:
			c.store.log.Warn("compacting etcd's history failed", "error", err)
		default:
			turn, revision = next, now
		}
	}
	return nil
}

// step compacts unless another server has taken the turn, and returns the next turn and the newest revision.
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
