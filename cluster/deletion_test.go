package cluster_test

import (
	"cmp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// departures records the order in which objects are deleted, by their last resource versions.
type departures struct {
	mu    sync.Mutex
	gone  []departure
	done  sync.WaitGroup
	stops []func()
}

type departure struct {
	kind    string
	version int
}

func (w *world) departures() *departures {
	w.t.Helper()
	d := &departures{}
	pods, err := w.pods.Watch(w.ctx, metav1.ListOptions{})
	w.check(err)
	sets, err := w.sets.Watch(w.ctx, metav1.ListOptions{})
	w.check(err)
	deployments, err := w.deployments.Watch(w.ctx, metav1.ListOptions{})
	w.check(err)
	d.follow("pod", pods)
	d.follow("replica set", sets)
	d.follow("deployment", deployments)
	return d
}

func (d *departures) follow(kind string, w watch.Interface) {
	d.stops = append(d.stops, w.Stop)
	d.done.Go(func() {
		for e := range w.ResultChan() {
			if e.Type != watch.Deleted {
				continue
			}
			version, err := strconv.Atoi(e.Object.(metav1.Object).GetResourceVersion())
			if err != nil {
				kind = err.Error()
			}
			d.mu.Lock()
			d.gone = append(d.gone, departure{kind, version})
			d.mu.Unlock()
		}
	})
}

func (d *departures) stop() []string {
	for _, stop := range d.stops {
		stop()
	}
	d.done.Wait()
	slices.SortFunc(d.gone, func(a, b departure) int { return cmp.Compare(a.version, b.version) })
	var kinds []string
	for _, g := range d.gone {
		kinds = append(kinds, g.kind)
	}
	return kinds
}

// TestDeleteDeployment: the propagation policy determines what is deleted, and in which order. Pods take a second to
// stop.
func TestDeleteDeployment(t *testing.T) {
	for _, test := range []struct {
		policy metav1.DeletionPropagation
		order  []string
	}{
		{"", []string{"deployment", "replica set", "pod", "pod"}},
		{metav1.DeletePropagationBackground, []string{"deployment", "replica set", "pod", "pod"}},
		{metav1.DeletePropagationForeground, []string{"pod", "pod", "replica set", "deployment"}},
		{metav1.DeletePropagationOrphan, []string{"deployment"}},
	} {
		t.Run("policy "+string(test.policy), func(t *testing.T) {
			inBubble(t, nodes(2), func(t *testing.T, w *world) {
				w.create(deploymentOf("web", 2))
				time.Sleep(10 * time.Second)
				watching := w.departures()
				var o metav1.DeleteOptions
				if test.policy != "" {
					o.PropagationPolicy = &test.policy
				}
				w.check(w.deployments.Delete(w.ctx, "web", o))
				if test.policy == metav1.DeletePropagationForeground {
					d := w.deployment("web")
					if d.DeletionTimestamp == nil || !slices.Contains(d.Finalizers, metav1.FinalizerDeleteDependents) {
						t.Errorf("the deployment does not wait: %v", d.ObjectMeta)
					}
				}
				time.Sleep(time.Minute)
				if got := watching.stop(); !slices.Equal(got, test.order) {
					t.Errorf("went %q, want %q", got, test.order)
				}
				if test.policy == metav1.DeletePropagationOrphan {
					w.orphaned()
				}
			})
		})
	}
}

// orphaned checks what a deployment leaves behind: a replica set without an owner that keeps its pods, until the
// deployment is created again and adopts it.
func (w *world) orphaned() {
	w.t.Helper()
	sets := w.replicaSets("web")
	if len(sets) != 1 || len(sets[0].OwnerReferences) > 0 {
		w.t.Fatalf("the orphaned replica sets are %v", sets)
	}
	for _, p := range w.running("web", 2, "") {
		if !metav1.IsControlledBy(&p, &sets[0]) {
			w.t.Errorf("%s belongs to %v", p.Name, p.OwnerReferences)
		}
	}
	again := w.create(deploymentOf("web", 2))
	time.Sleep(5 * time.Second)
	adopted := w.replicaSets("web")
	if len(adopted) != 1 || adopted[0].UID != sets[0].UID || !metav1.IsControlledBy(&adopted[0], again) {
		w.t.Errorf("after the deployment came back: %v", adopted)
	}
}

// TestDeletePods: a pod gets its grace period, a shorter one if the client requests it, or none at all.
func TestDeletePods(t *testing.T) {
	inBubble(t, stubborn(), func(t *testing.T, w *world) {
		for _, test := range []struct {
			name   string
			grace  *int64
			bound  bool
			before time.Duration // still there
			after  time.Duration // gone
		}{
			{"default", nil, true, 29 * time.Second, 32 * time.Second},
			{"shorter", new(int64(5)), true, 4 * time.Second, 7 * time.Second},
			{"by-force", new(int64(0)), true, 0, time.Nanosecond},
			{"unbound", nil, false, 0, time.Nanosecond},
		} {
			pod := testPod(test.name)
			if !test.bound {
				pod.Spec.NodeSelector = map[string]string{"disk": "none"}
			}
			_, err := w.pods.Create(w.ctx, pod, metav1.CreateOptions{})
			w.check(err)
			time.Sleep(10 * time.Second)
			w.check(w.pods.Delete(w.ctx, test.name, metav1.DeleteOptions{GracePeriodSeconds: test.grace}))
			if test.before > 0 {
				time.Sleep(test.before)
				if _, err := w.pods.Get(w.ctx, test.name, metav1.GetOptions{}); err != nil {
					t.Errorf("%s: after %v: %v", test.name, test.before, err)
				}
			}
			time.Sleep(test.after - test.before)
			if _, err := w.pods.Get(w.ctx, test.name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("%s: after %v: %v", test.name, test.after, err)
			}
		}
	})
}
