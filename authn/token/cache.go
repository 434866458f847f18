package token

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/keelson-dev/keelson/authn"
)

// cacheSize is how many tokens a cache has at most.
const cacheSize = 8192

// CacheOptions of Cache. With the zero value nothing is cached.
type CacheOptions struct {
	// Valid is how long it is known whose a token is, although it may end before.
	Valid time.Duration
	// Unknown is how long it is known that a token is not of the Verifier's kind, or refused. Errors of a request's context are not
	// cached.
	Unknown time.Duration
}

// Cache returns a Verifier that asks v, for a while once for each token and set of audiences (authn.WithAudiences). It keeps hashes, not tokens.
func Cache(v Verifier, o CacheOptions) Verifier {
	return &cache{verifier: v, options: o, young: map[cacheKey]cached{}}
}

type cacheKey [sha256.Size]byte

// cached is an answer, until it ends.
type cached struct {
	id   *authn.Identity
	err  error
	ends time.Time
}

// cache keeps answers in two generations: when the young one is full it becomes the old one, which is dropped.
type cache struct {
	verifier Verifier
	options  CacheOptions

	mu         sync.Mutex
	young, old map[cacheKey]cached
}

// Verify implements Verifier.
func (c *cache) Verify(ctx context.Context, token string) (*authn.Identity, error) {
	key := keyOf(ctx, token)
	if known, ok := c.get(key); ok {
		return known.id, known.err
	}
	id, err := c.verifier.Verify(ctx, token)
	keep := c.options.Valid
	if err != nil || id == nil {
		keep = c.options.Unknown
	}
	if keep > 0 && ctx.Err() == nil && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		c.put(key, cached{id, err, time.Now().Add(keep)})
	}
	return id, err
}

// keyOf hashes a token with the audiences, whose order does not matter.
func keyOf(ctx context.Context, token string) cacheKey {
	audiences, asked := authn.Audiences(ctx)
	if !asked {
		return sha256.Sum256([]byte("\x00" + token))
	}
	hash := sha256.Sum256([]byte(strings.Join(slices.Sorted(slices.Values(audiences)), "\x00")))
	return sha256.Sum256(append(append([]byte("\x01"), hash[:]...), token...))
}

func (c *cache) get(key cacheKey) (cached, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known, ok := c.young[key]
	if !ok {
		known, ok = c.old[key]
	}
	return known, ok && time.Now().Before(known.ends)
}

func (c *cache) put(key cacheKey, known cached) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.young) >= cacheSize/2 {
		c.young, c.old = map[cacheKey]cached{}, c.young
	}
	c.young[key] = known
}
