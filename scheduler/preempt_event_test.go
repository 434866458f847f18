package scheduler_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keelson-dev/keelson/scheduler"
)

// releasing is a plugin that refuses pods and, as their preemptor, gives back what they lack, which it tells at once.
type releasing struct{ *permissions }

func (r releasing) Preempt(_ context.Context, t *scheduler.Trial) (*scheduler.Nomination, error) {
	r.give(scheduler.ObjectAdded, t.Pod().Name)
	return nil, scheduler.Refuse("released")
}

// TestEventDuringPreemption: an event that helps a pod counts while a preemptor works for it, also if that plugin is the only one
// that has refused the pod.
func TestEventDuringPreemption(t *testing.T) {
	p := &permissions{synced: make(chan struct{})}
	close(p.synced)
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, node("n", "4", "8Gi"))
		s.others = []scheduler.Objects{p}
		profile := also(releasing{p}, binding(s).Plugins[0].Plugin)
		s.schedule(t, profile, scheduler.Options{}, func(*scheduler.Scheduler) {
			s.pods.Put(pod("web", "1", "1Gi"))
			after(30 * time.Second)
			same(t, "n", s.where()["web"])
		})
	})
}
