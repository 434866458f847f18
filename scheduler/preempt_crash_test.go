package scheduler_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/plugins"
)

// A scheduler that ends between a nomination and the deletion of the victims is continued by the next one, on the same
// node.
func TestPreemptionIsContinued(t *testing.T) {
	for name, deleted := range map[string][]string{"none deleted": nil, "one deleted": {"low1"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t, node("a", "4", "8Gi"), node("b", "4", "8Gi"))
				p := defaults()
				p.Plugins = append(slices.Clip(p.Plugins), scheduler.Enabled{Plugin: plugins.DefaultBinder{Client: s}})
				s.schedule(t, p, scheduler.Options{}, func(*scheduler.Scheduler) {
					s.pods.Put(on(important(pod("dear", "4", ""), 5), "a"))
					for _, name := range []string{"low1", "low2"} {
						s.pods.Put(on(pod(name, "2", ""), "b"))
					}
					synctest.Wait()
					s.failing(func(ctx context.Context, name string) error {
						if name == "vip" || slices.Contains(deleted, name) {
							return nil
						}
						<-ctx.Done()
						return ctx.Err()
					})
					s.pods.Put(important(pod("vip", "4", ""), 10))
					after(time.Second)
				})
				same(t, []string{"vip:b"}, s.nominated())
				s.failing(nil)
				s.schedule(t, p, scheduler.Options{}, func(*scheduler.Scheduler) { after(time.Minute) })
				same(t, map[string]string{"dear": "a", "vip": "b"}, s.where())
			})
		})
	}
}

// Whatever pods come and go, and however long writes take, no node has more pods than it has room for, nobody is preempted
// for a pod of no higher priority, and in the end no pod waits for which others could be preempted.
func TestPreemptionNeverOvercommits(t *testing.T) {
	for seed := range uint64(10) {
		r := rand.New(rand.NewPCG(seed, 1))
		var victims []scheduler.Decision
		o := scheduler.Options{OnDecision: func(d scheduler.Decision) {
			if d.Preemption != nil && len(d.Preemption.Victims) > 0 {
				victims = append(victims, d)
			}
		}}
		run(t, o, func(t *testing.T, s *server, sched *scheduler.Scheduler) {
			delays := make(chan time.Duration, 1000)
			for range cap(delays) {
				delays <- time.Duration(r.IntN(500)) * time.Millisecond
			}
			s.failing(func(context.Context, string) error {
				select {
				case d := <-delays:
					time.Sleep(d)
				default:
				}
				return nil
			})
			for i := range 60 {
				p := important(pod(fmt.Sprint("p", i), fmt.Sprint(1+r.IntN(2)), ""), int32(r.IntN(5)))
				if r.IntN(2) == 0 {
					graceful(p)
				}
				s.pods.Put(p)
				time.Sleep(time.Duration(r.IntN(1500)) * time.Millisecond)
				end(s, r.IntN(4) == 0, r.IntN(60))
				checkRoom(t, s)
			}
			for range 30 {
				after(10 * time.Second)
				end(s, false, -1)
				checkRoom(t, s)
			}
			profile := defaults()
			for name, where := range s.where() {
				if where != "-" {
					continue
				}
				p, _ := s.pods.Get("default", name)
				n, err := plugins.DefaultPreemption{}.Preempt(t.Context(), profile.Trial(p, sched.Snapshot()))
				if err == nil {
					t.Errorf("seed %d: %s waits, but %+v", seed, name, n)
				}
			}
			for _, d := range victims {
				for _, v := range d.Preemption.Victims {
					if *v.Spec.Priority >= *d.Pod.Spec.Priority {
						t.Errorf("seed %d: %s preempts %s", seed, d.Pod.Name, v.Name)
					}
				}
			}
			if len(victims) == 0 {
				t.Errorf("seed %d: no preemption", seed)
			}
		}, node("a", "4", "8Gi"), node("b", "4", "8Gi"), node("c", "3", "8Gi"))
	}
}

// end has the pods go that were told to more than three seconds ago, and one more if asked.
func end(s *server, more bool, number int) {
	synctest.Wait()
	for name := range s.where() {
		p, _ := s.pods.Get("default", name)
		if p.DeletionTimestamp != nil && time.Since(p.DeletionTimestamp.Time) > 3*time.Second || more && name == fmt.Sprint("p", number) {
			s.pods.Delete("default", name)
		}
	}
	synctest.Wait()
}

func checkRoom(t *testing.T, s *server) {
	t.Helper()
	used := map[string]int64{}
	for name, where := range s.where() {
		p, _ := s.pods.Get("default", name)
		used[where] += p.Spec.Containers[0].Resources.Requests.Cpu().Value()
	}
	for name, room := range map[string]int64{"a": 4, "b": 4, "c": 3} {
		if used[name] > room {
			t.Errorf("%s has %d of %d", name, used[name], room)
		}
	}
}
