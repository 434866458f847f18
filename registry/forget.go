package registry

import (
	"context"
	"sort"
	"time"
)

// forget deletes the objects of kinds with a time to live, once a minute, and compacts the history.
func (r *Registry) forget(ctx context.Context) {
	expiry, compaction := time.NewTicker(time.Minute), time.NewTicker(r.compaction)
	defer expiry.Stop()
	defer compaction.Stop()
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
	n := sort.Search(len(t.log), func(i int) bool {
		return t.entry(t.base+int64(i)).item.Revision > revision
	})
	if n == 0 {
		return
	}
	t.oldest = t.entry(t.base + int64(n) - 1).item.Revision
	rest := make([]change, 0, len(t.log)-n)
	for seq := t.base + int64(n); seq < t.end(); seq++ {
		rest = append(rest, t.entry(seq))
	}
	t.log, t.first, t.base = rest, 0, t.base+int64(n)
}
