package eventratelimit

import (
	"cmp"
	"sync"

	"golang.org/x/time/rate"
	"k8s.io/utils/lru"
)

// buckets are the token buckets of a limit.
type buckets struct {
	of    Type
	limit rate.Limit
	burst int

	mu   sync.Mutex
	kept *lru.Cache // of *rate.Limiter, by key
}

func newBuckets(l Limit) *buckets {
	size := cmp.Or(int(l.CacheSize), DefaultCacheSize)
	if l.Type == Server {
		size = 1
	}
	return &buckets{of: l.Type, limit: rate.Limit(l.QPS), burst: int(l.Burst), kept: lru.New(size)}
}

// take takes a token out of a bucket and reports whether there was one.
func (b *buckets) take(key string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	kept, ok := b.kept.Get(key)
	if !ok {
		kept = rate.NewLimiter(b.limit, b.burst)
		b.kept.Add(key, kept)
	}
	return kept.(*rate.Limiter).Allow()
}
