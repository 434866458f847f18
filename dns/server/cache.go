package server

import (
	"sync"
	"time"

	wire "github.com/miekg/dns"
)

// maxRemembered is the size of the largest answer that is remembered, in bytes.
const maxRemembered = 2048

// cache remembers answers of other resolvers, packed. When it is full, any of them makes room.
type cache struct {
	size   int
	maxTTL time.Duration

	mu      sync.RWMutex // guards the rest
	entries map[asked]remembered
}

type remembered struct {
	packed     []byte
	since, end time.Time
}

func newCache(size int, maxTTL time.Duration) *cache {
	return &cache{size: size, maxTTL: maxTTL, entries: map[asked]remembered{}}
}

// get returns an answer, with what is left of the TTLs of its records.
func (c *cache) get(q asked, now time.Time) (*wire.Msg, bool) {
	c.mu.RLock()
	e, ok := c.entries[q]
	c.mu.RUnlock()
	if !ok || !now.Before(e.end) {
		return nil, false
	}
	answer := new(wire.Msg)
	if answer.Unpack(e.packed) != nil {
		return nil, false
	}
	age := uint32(now.Sub(e.since) / time.Second) //nolint:gosec // at most MaxTTL
	for _, section := range [][]wire.RR{answer.Answer, answer.Ns, answer.Extra} {
		for _, rr := range section {
			if h := rr.Header(); h.Rrtype != wire.TypeOPT {
				h.Ttl -= min(age, h.Ttl)
			}
		}
	}
	return answer, true
}

// put remembers an answer.
func (c *cache) put(q asked, answer *wire.Msg, now time.Time) {
	ttl := min(lifetime(answer), c.maxTTL)
	if ttl <= 0 || answer.Truncated || answer.Len() > maxRemembered {
		return
	}
	packed, err := answer.Pack()
	if err != nil || len(packed) > maxRemembered {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.entries[q]; !known && len(c.entries) >= c.size {
		c.evict(now)
	}
	c.entries[q] = remembered{packed, now, now.Add(ttl)}
}

// evict makes room: it removes what has ended among some entries, and one in any case.
func (c *cache) evict(now time.Time) {
	const some = 8
	seen := 0
	for q, e := range c.entries { // in random order
		if seen == 0 || !now.Before(e.end) {
			delete(c.entries, q)
		}
		if seen++; seen == some {
			return
		}
	}
}

// lifetime is how long an answer is valid: the smallest TTL of its records, or what its SOA says of missing ones. Without
// either it is not remembered.
func lifetime(answer *wire.Msg) time.Duration {
	const most = 1 << 31
	ttl := uint32(most)
	for _, section := range [][]wire.RR{answer.Answer, answer.Ns} {
		for _, rr := range section {
			ttl = min(ttl, rr.Header().Ttl)
			if soa, ok := rr.(*wire.SOA); ok {
				ttl = min(ttl, soa.Minttl)
			}
		}
	}
	if ttl == most || len(answer.Answer) == 0 && !hasSOA(answer) {
		return 0
	}
	return time.Duration(ttl) * time.Second
}

func hasSOA(answer *wire.Msg) bool {
	for _, rr := range answer.Ns {
		if rr.Header().Rrtype == wire.TypeSOA {
			return true
		}
	}
	return false
}
