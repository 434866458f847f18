package webhook

import (
	"log/slog"
	"maps"
	"sync"
	"time"
)

// tellEvery is how often at most the log is told of events lost in the same way: a full buffer loses many.
const tellEvery = 10 * time.Second

// losses counts lost events by what lost them.
type losses struct {
	log *slog.Logger

	mu     sync.Mutex
	counts map[string]int64
	untold map[string]int
	told   map[string]time.Time
}

func (l *losses) add(plugin string, n int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.counts == nil {
		l.counts, l.untold, l.told = map[string]int64{}, map[string]int{}, map[string]time.Time{}
	}
	l.counts[plugin] += int64(n)
	l.untold[plugin] += n
	if now := time.Now(); now.Sub(l.told[plugin]) >= tellEvery {
		l.log.Error("audit events lost", "plugin", plugin, "events", l.untold[plugin], "error", err)
		l.told[plugin], l.untold[plugin] = now, 0
	}
}

// tell logs what has not been.
func (l *losses) tell() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for plugin, n := range l.untold {
		if n > 0 {
			l.log.Error("audit events lost", "plugin", plugin, "events", n)
			l.untold[plugin] = 0
		}
	}
}

func (l *losses) all() map[string]int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.counts)
}
