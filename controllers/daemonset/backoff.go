package daemonset

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// The pods that fail on a node are deleted after 1 s, 2 s, 4 s and so on. A node on which none has failed for long
// starts anew.
const (
	firstDelay = time.Second
	mostDelay  = 15 * time.Minute
	forgiven   = 2 * mostDelay
)

// failing identifies the pods of one generation of a set on one node.
type failing struct {
	set        types.UID
	generation int64
	node       string
}

// backoff is safe for concurrent use.
type backoff struct {
	mu    sync.Mutex
	nodes map[failing]delay
	swept time.Time
}

type delay struct {
	length time.Duration
	since  time.Time
}

func newBackoff() *backoff { return &backoff{nodes: map[failing]delay{}} }

// delete reports whether a failed pod may be deleted at now, and counts the deletion. If not, it returns the delay to
// retry after.
func (b *backoff) delete(f failing, now time.Time) (retry time.Duration, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now.Sub(b.swept) >= time.Minute {
		b.swept = now
		for other, d := range b.nodes {
			if now.Sub(d.since) > forgiven {
				delete(b.nodes, other)
			}
		}
	}
	d, known := b.nodes[f]
	switch {
	case !known || now.Sub(d.since) > forgiven:
		b.nodes[f] = delay{firstDelay, now}
	case now.Sub(d.since) < d.length:
		return d.length, false
	default:
		b.nodes[f] = delay{min(2*d.length, mostDelay), now}
	}
	return 0, true
}
