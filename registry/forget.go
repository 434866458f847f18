package registry

import (
	"context"
	"time"
)

// forget deletes the objects of kinds with a time to live, once a minute, compacts the history, and tries
// again what could not be read.
func (r *Registry) forget(ctx context.Context) {
	expiry, compaction, retry := time.NewTicker(time.Minute), time.NewTicker(r.compaction), time.NewTicker(retryPeriod)
	defer expiry.Stop()
	defer compaction.Stop()
	defer retry.Stop()
	// What was the present at one tick is the past at the next.
	revision := r.clock.read()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-expiry.C:
			for _, res := range r.order {
				if res.TTL > 0 {
					res.expire(ctx, now)
				}
			}
		case <-retry.C:
			for _, res := range r.byPrefix {
				res.retry(ctx)
			}
		case <-compaction.C:
			for _, res := range r.order {
				if res.table != nil {
					res.table.compact(revision)
				}
			}
			revision = r.clock.read()
		}
	}
}

// compact forgets the states before revision, and the changes that led to it.
func (t *table) compact(revision int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.compacted = max(t.compacted, revision)
	t.log.forgetUntil(revision)
}
