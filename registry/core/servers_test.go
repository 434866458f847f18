package core_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/memory"
)

// late is a store whose streams deliver nothing while it is held: its server's cache lags behind another
// server's writes.
type late struct {
	*memory.Store
	mu   sync.Mutex
	gate chan struct{} // closed when open; nil when never held
}

func (l *late) hold() { l.mu.Lock(); defer l.mu.Unlock(); l.gate = make(chan struct{}) }

func (l *late) Watch(ctx context.Context, prefix string, after int64) (storage.Stream, error) {
	s, err := l.Store.Watch(ctx, prefix, after)
	return lateStream{s, l}, err
}

type lateStream struct {
	storage.Stream
	store *late
}

func (s lateStream) Next(ctx context.Context) ([]storage.Event, error) {
	events, err := s.Stream.Next(ctx)
	s.store.mu.Lock()
	gate := s.store.gate
	s.store.mu.Unlock()
	if gate == nil {
		return events, err
	}
	select {
	case <-gate:
		return events, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// TestActionsOfTwoServers: an action on a pod is correct for the stored state, even if everything needed to
// decide it is in a cache that lags behind another server's writes.
func TestActionsOfTwoServers(t *testing.T) {
	type servers struct{ here, there *registry.Registry } // there's cache lags
	spent := func(n int32) policyv1.PodDisruptionBudgetStatus {
		return policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: n, CurrentHealthy: 1 + n, DesiredHealthy: 1, ExpectedPods: 3}
	}
	tests := map[string]struct {
		both, here func(t *testing.T, s servers) // writes that both see, and writes that only here sees
		there      func(t *testing.T, s servers) error
		want       error
	}{
		"bind a bound pod": {
			func(t *testing.T, s servers) { create(t, s.here, pod("web")) },
			func(t *testing.T, s servers) {
				if _, err := act(t, s.here, "binding", "web", bindTo("web", "a"), false); err != nil {
					t.Error(err)
				}
			},
			func(t *testing.T, s servers) error {
				_, err := act(t, s.there, "binding", "web", bindTo("web", "b"), false)
				return err
			}, registry.ErrConflict,
		},
		"bind a bound pod, dry run": {
			func(t *testing.T, s servers) { create(t, s.here, pod("web")) },
			func(t *testing.T, s servers) {
				if _, err := act(t, s.here, "binding", "web", bindTo("web", "a"), false); err != nil {
					t.Error(err)
				}
			},
			func(t *testing.T, s servers) error {
				_, err := act(t, s.there, "binding", "web", bindTo("web", "b"), true)
				return err
			}, registry.ErrConflict,
		},
		"bind a recreated pod": {
			func(t *testing.T, s servers) {
				create(t, s.here, pod("web"))
				if _, err := act(t, s.here, "binding", "web", bindTo("web", "a"), false); err != nil {
					t.Error(err)
				}
			},
			func(t *testing.T, s servers) {
				now := int64(0)
				o := metav1.DeleteOptions{GracePeriodSeconds: &now}
				if err := s.here.Access().Delete(t.Context(), podKey("web"), o); err != nil {
					t.Error(err)
				}
				create(t, s.here, pod("web"))
			},
			func(t *testing.T, s servers) error {
				_, err := act(t, s.there, "binding", "web", bindTo("web", "b"), false)
				return err
			}, nil,
		},
		"delete a recreated pod again": {
			func(t *testing.T, s servers) {
				podIn(t, s.here, corev1.PodRunning, true)
				if err := s.here.Access().Delete(t.Context(), podKey("web"), metav1.DeleteOptions{}); err != nil {
					t.Error(err)
				}
			},
			func(t *testing.T, s servers) {
				now := int64(0)
				o := metav1.DeleteOptions{GracePeriodSeconds: &now}
				if err := s.here.Access().Delete(t.Context(), podKey("web"), o); err != nil {
					t.Error(err)
				}
				podIn(t, s.here, corev1.PodRunning, true)
			},
			func(t *testing.T, s servers) error {
				if err := s.there.Access().Delete(t.Context(), podKey("web"), metav1.DeleteOptions{}); err != nil {
					return err
				}
				if p, ok := stored(t, s.here, pod("web")); ok && p.DeletionTimestamp == nil {
					t.Error("the new pod is not being deleted")
				}
				return nil
			}, nil,
		},
		"delete a pod that only the other server knows": {
			func(*testing.T, servers) {},
			func(t *testing.T, s servers) { create(t, s.here, pod("web")) },
			func(t *testing.T, s servers) error {
				return s.there.Access().Delete(t.Context(), podKey("web"), metav1.DeleteOptions{})
			}, nil,
		},
		"evict by an exhausted budget": {
			func(t *testing.T, s servers) {
				podIn(t, s.here, corev1.PodRunning, true)
				budget(t, s.here, "b", spent(1))
			},
			func(t *testing.T, s servers) {
				change(t, s.here, "status", &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "b", Namespace: "default"}},
					func(pdb *policyv1.PodDisruptionBudget) { pdb.Status.DisruptionsAllowed = 0 })
			},
			func(t *testing.T, s servers) error {
				_, err := act(t, s.there, "eviction", "web", evictionOf("web"), false)
				return err
			}, registry.ErrTooManyRequests,
		},
		"evict by a replenished budget": {
			func(t *testing.T, s servers) {
				podIn(t, s.here, corev1.PodRunning, true)
				budget(t, s.here, "b", spent(0))
			},
			func(t *testing.T, s servers) {
				change(t, s.here, "status", &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "b", Namespace: "default"}},
					func(pdb *policyv1.PodDisruptionBudget) { pdb.Status.DisruptionsAllowed = 1 })
			},
			func(t *testing.T, s servers) error {
				_, err := act(t, s.there, "eviction", "web", evictionOf("web"), false)
				return err
			}, nil,
		},
		"evict under a new budget": {
			func(t *testing.T, s servers) { podIn(t, s.here, corev1.PodRunning, true) },
			func(t *testing.T, s servers) { budget(t, s.here, "b", spent(0)) },
			func(t *testing.T, s servers) error {
				_, err := act(t, s.there, "eviction", "web", evictionOf("web"), false)
				return err
			}, registry.ErrTooManyRequests,
		},
		"evict a pod that runs by now": {
			func(t *testing.T, s servers) {
				podIn(t, s.here, corev1.PodPending, false)
				budget(t, s.here, "b", spent(0))
			},
			func(t *testing.T, s servers) {
				change(t, s.here, "status", pod("web"), func(p *corev1.Pod) {
					p.Status.Phase = corev1.PodRunning
					p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
				})
			},
			func(t *testing.T, s servers) error {
				_, err := act(t, s.there, "eviction", "web", evictionOf("web"), false)
				return err
			}, registry.ErrTooManyRequests,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memory.New(memory.Options{})
				far := &late{Store: store}
				s := servers{runningOn(t, store), runningOn(t, far)}
				test.both(t, s)
				if _, err := s.there.Access().List(t.Context(), corev1.Resource("pods"), ""); err != nil {
					t.Fatal(err) // it knows what both know
				}
				far.hold()
				test.here(t, s)
				done := make(chan error, 1)
				go func() { done <- test.there(t, s) }()
				synctest.Wait()
				close(far.gate)
				if err := <-done; !errors.Is(err, test.want) {
					t.Errorf("error %v, want %v", err, test.want)
				}
			})
		})
	}
}
