package registry

import (
	"context"
	"time"
)

// forget deletes expired objects, compacts the history and retries unreadable records, each at its own
// interval.
func (r *Registry) forget(ctx context.Context) {
	expiry, compaction, retry := time.NewTicker(time.Minute), time.NewTicker(r.options.Compaction), time.NewTicker(retryPeriod)
	defer expiry.Stop()
	defer compaction.Stop()
	defer retry.Stop()
	// The newest revision of one tick is compacted at the next.
	revision := r.clock.read()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-expiry.C:
			for _, res := range r.Resources() {
				if res.TTL > 0 {
					res.expire(ctx, now)
				}
			}
		case <-retry.C:
			for _, res := range r.kinds.Load().stored {
				res.retry(ctx)
			}
		case <-compaction.C:
			for _, res := range r.Resources() {
				if res.table != nil {
					res.table.compact(revision)
				}
			}
			revision = r.clock.read()
		}
	}
}

// compact drops the states before revision, and the changes that led to it.
func (t *table) compact(revision int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.compacted = max(t.compacted, revision)
	t.log.forgetUntil(revision)
}
