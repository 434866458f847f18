package scheduler

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
)

// Kept returns how much a Scheduler remembers of pods and nodes, by what it is.
func (s *Scheduler) Kept() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]int{
		"pending": len(s.pending), "assumed": len(s.assumed), "bindings": len(s.bindings),
		"evictions": len(s.evictions.of) + len(s.evictions.going), "asks": len(s.asks.of),
		"nodes": len(s.state.nodes) + len(s.state.orphans), "images": len(s.state.images), "nominated": len(s.state.nominated),
	}
	for what, n := range all {
		if n == 0 {
			delete(all, what)
		}
	}
	return all
}

// KeptOfWrites returns how many pods are remembered after a write for each of some pods, and another for one of them.
func KeptOfWrites(ctx context.Context, pods ...types.UID) int {
	w := newWrites(Options{Writes: 1, PreBinds: 1})
	for _, pod := range append(pods, pods[0]) {
		w.start(ctx, pod, func() {})
	}
	w.all.Wait()
	return len(w.last)
}
