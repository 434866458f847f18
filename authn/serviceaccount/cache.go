package serviceaccount

import (
	"crypto/sha256"
	"sync"
)

// cacheSize is how many tokens a Verifier caches, about a kilobyte each.
const cacheSize = 8192

// cache keeps the newest entries in two generations: when the young one is full it becomes the old one, and the
// previous old one is dropped with all entries that were not used since. Keys are hashes, so that no token is stored.
type cache struct {
	mu         sync.RWMutex
	young, old map[cacheKey]*verified
}

type cacheKey [sha256.Size]byte

func newCache() *cache { return &cache{young: map[cacheKey]*verified{}} }

func (c *cache) get(key cacheKey) *verified {
	c.mu.RLock()
	young, old := c.young[key], c.old[key]
	c.mu.RUnlock()
	if young == nil && old != nil {
		c.put(key, old)
		return old
	}
	return young
}

func (c *cache) put(key cacheKey, v *verified) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.young) >= cacheSize/2 {
		c.young, c.old = make(map[cacheKey]*verified, cacheSize/2), c.young
	}
	c.young[key] = v
}
