package serviceaccount

import (
	"crypto/sha256"
	"sync"
)

// cacheSize is how many tokens a Verifier remembers, about a kilobyte each.
const cacheSize = 8192

// cache remembers the newest entries in two generations: when the young one is full it becomes
// the old one, and the old one, of which nothing was asked for since, is dropped. Keys are
// hashes, so that no token is kept.
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
