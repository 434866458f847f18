package core_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/registry/registrytest"
)

func evictionOf(name string) *policyv1.Eviction {
	return &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
}

// podIn creates a pod on a node in a phase, ready or not.
func podIn(t *testing.T, r *registry.Registry, phase corev1.PodPhase, ready bool) *corev1.Pod {
	p := pod("web")
	p.Spec.NodeName = "node-1"
	p = create(t, r, p)
	return change(t, r, "status", p, func(p *corev1.Pod) {
		p.Status.Phase = phase
		if ready {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		}
	})
}

func budget(t *testing.T, r *registry.Registry, name string, status policyv1.PodDisruptionBudgetStatus) *policyv1.PodDisruptionBudget {
	pdb := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
	pdb.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	pdb = create(t, r, pdb)
	return change(t, r, "status", pdb, func(pdb *policyv1.PodDisruptionBudget) {
		pdb.Status = status
		if status.ObservedGeneration == 0 {
			pdb.Status.ObservedGeneration = pdb.Generation
		}
	})
}

func TestEvictionWithoutBudget(t *testing.T) {
	for _, phase := range []corev1.PodPhase{corev1.PodRunning, corev1.PodPending, corev1.PodSucceeded} {
		t.Run(string(phase), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := running(t)
				p := podIn(t, r, phase, true)
				if answer, err := act(t, r, "eviction", "web", evictionOf("web"), true); err != nil || !succeeded(answer) {
					t.Fatalf("dry run: %v, %v", answer, err)
				}
				if p, _ = stored(t, r, p); p.DeletionTimestamp != nil || podCondition(p, corev1.DisruptionTarget) != "" {
					t.Fatal("a dry run changed the pod")
				}
				if answer, err := act(t, r, "eviction", "web", evictionOf("web"), false); err != nil || !succeeded(answer) {
					t.Fatalf("got %v, %v", answer, err)
				}
				p, there := stored(t, r, p)
				if there != (phase != corev1.PodSucceeded) {
					t.Fatal("only a pod that has ended is removed at once")
				}
				if there && (*p.DeletionGracePeriodSeconds != 30 || podCondition(p, corev1.DisruptionTarget) != "True EvictionByEvictionAPI Eviction API: evicting") {
					t.Errorf("got %+v", p)
				}
			})
		})
	}
}

func TestEvictionOptions(t *testing.T) {
	r := running(t)
	p := podIn(t, r, corev1.PodRunning, true)
	e := evictionOf("web")
	other, grace := "1000", int64(5)
	e.DeleteOptions = &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &other}}
	if _, err := act(t, r, "eviction", "web", e, false); !errors.Is(err, registry.ErrConflict) {
		t.Errorf("another version: %v", err)
	}
	another := types.UID("another")
	e.DeleteOptions = &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &another}}
	if _, err := act(t, r, "eviction", "web", e, false); !errors.Is(err, registry.ErrConflict) {
		t.Errorf("another UID: %v", err)
	}
	if now, _ := stored(t, r, p); len(now.Status.Conditions) != len(p.Status.Conditions) {
		t.Errorf("a pod that was not evicted is marked: %+v", now.Status.Conditions)
	}
	e.DeleteOptions = &metav1.DeleteOptions{GracePeriodSeconds: &grace, Preconditions: &metav1.Preconditions{UID: &p.UID, ResourceVersion: &p.ResourceVersion}}
	if _, err := act(t, r, "eviction", "web", e, false); err != nil {
		t.Fatal(err)
	}
	if p, _ = stored(t, r, p); *p.DeletionGracePeriodSeconds != 5 {
		t.Errorf("grace %d", *p.DeletionGracePeriodSeconds)
	}
	if _, err := act(t, r, "eviction", "web", evictionOf("other"), false); !errors.Is(err, registry.ErrBadRequest) {
		t.Errorf("another name: %v", err)
	}
	if _, err := act(t, r, "eviction", "none", evictionOf("none"), false); !errors.Is(err, registry.ErrNotFound) {
		t.Errorf("no pod: %v", err)
	}
	yes := true
	e.DeleteOptions = &metav1.DeleteOptions{IgnoreStoreReadErrorWithClusterBreakingPotential: &yes}
	if _, err := act(t, r, "eviction", "web", e, false); !errors.Is(err, registry.ErrInvalid) {
		t.Errorf("an unsafe option: %v", err)
	}
}

func TestEvictionSpendsTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := running(t)
		p := podIn(t, r, corev1.PodRunning, true)
		pdb := budget(t, r, "pdb", policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 1, CurrentHealthy: 2, DesiredHealthy: 1, ExpectedPods: 2})
		if _, err := act(t, r, "eviction", "web", evictionOf("web"), true); err != nil {
			t.Fatal(err)
		}
		if pdb, _ = stored(t, r, pdb); pdb.Status.DisruptionsAllowed != 1 {
			t.Fatal("a dry run took from the budget")
		}
		if _, err := act(t, r, "eviction", "web", evictionOf("web"), false); err != nil {
			t.Fatal(err)
		}
		pdb, _ = stored(t, r, pdb)
		at, noted := pdb.Status.DisruptedPods["web"]
		if pdb.Status.DisruptionsAllowed != 0 || !noted || len(pdb.Status.Conditions) != 1 || pdb.Status.Conditions[0].Reason != policyv1.InsufficientPodsReason {
			t.Errorf("got %+v", pdb.Status)
		}
		near(t, "the disruption", at)
		if p, _ = stored(t, r, p); p.DeletionTimestamp == nil {
			t.Error("the pod was not removed")
		}
	})
}

func TestEvictionRefused(t *testing.T) {
	full := map[string]metav1.Time{}
	for i := range 2001 {
		full[fmt.Sprint("pod-", i)] = metav1.Time{}
	}
	told := func(reason, message string) []metav1.Condition {
		return []metav1.Condition{{Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse, Reason: reason, Message: message, LastTransitionTime: metav1.Unix(1, 0)}}
	}
	failed := told(policyv1.SyncFailedReason, "no scale")
	for _, c := range []struct {
		name    string
		status  policyv1.PodDisruptionBudgetStatus
		err     error
		message string
		cause   string
		retry   int
	}{
		{"exhausted", policyv1.PodDisruptionBudgetStatus{CurrentHealthy: 1, DesiredHealthy: 2}, registry.ErrTooManyRequests,
			"Cannot evict pod as it would violate the pod's disruption budget.", "The disruption budget pdb needs 2 healthy pods and has 1 currently", 0},
		{"failed sync", policyv1.PodDisruptionBudgetStatus{Conditions: failed}, registry.ErrTooManyRequests,
			"Cannot evict pod as it would violate the pod's disruption budget.", "The disruption budget pdb does not allow evicting pods currently because it failed sync: no scale", 0},
		{"told another reason", policyv1.PodDisruptionBudgetStatus{CurrentHealthy: 3, DesiredHealthy: 2, Conditions: told("Other", "wait")}, registry.ErrTooManyRequests,
			"Cannot evict pod as it would violate the pod's disruption budget.", "The disruption budget pdb does not allow evicting pods currently (Other): wait", 0},
		{"told nothing", policyv1.PodDisruptionBudgetStatus{CurrentHealthy: 3, DesiredHealthy: 2, Conditions: told("Other", "")}, registry.ErrTooManyRequests,
			"Cannot evict pod as it would violate the pod's disruption budget.", "The disruption budget pdb does not allow evicting pods currently", 0},
		{"exhausted for another reason", policyv1.PodDisruptionBudgetStatus{CurrentHealthy: 3, DesiredHealthy: 2}, registry.ErrTooManyRequests,
			"Cannot evict pod as it would violate the pod's disruption budget.", "The disruption budget pdb does not allow evicting pods currently", 0},
		{"too many", policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 5, DisruptedPods: full}, registry.ErrForbidden,
			"DisruptedPods map too big - too many evictions not confirmed by PDB controller", "The disruption budget pdb does not allow evicting pods currently: too many pending evictions not confirmed by PDB controller", 0},
		{"negative", policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: -1}, registry.ErrForbidden,
			"pdb disruptions allowed is negative", "The disruption budget pdb does not allow evicting pods currently: pdb disruptions allowed is negative", 0},
		{"not observed", policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 5, ObservedGeneration: -1}, registry.ErrTooManyRequests,
			"Cannot evict pod as it would violate the pod's disruption budget.", "The disruption budget pdb is still being processed by the server.", 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := running(t)
			p := podIn(t, r, corev1.PodRunning, true)
			pdb := budget(t, r, "pdb", policyv1.PodDisruptionBudgetStatus{})
			at := registry.ObjectKey{Resource: policyv1.Resource("poddisruptionbudgets"), Namespace: "default", Name: "pdb"}
			if _, err := r.Access().Modify(t.Context(), at, func(obj registry.Object) error {
				s := &obj.(*policyv1.PodDisruptionBudget).Status
				if *s = c.status; s.ObservedGeneration == 0 {
					s.ObservedGeneration = pdb.Generation
				}
				return nil
			}, false); err != nil {
				t.Fatal(err)
			}
			_, err := act(t, r, "eviction", "web", evictionOf("web"), false)
			var refusal *registry.Error
			if !errors.As(err, &refusal) || !errors.Is(err, c.err) {
				t.Fatalf("got %v", err)
			}
			if refusal.Message != c.message || refusal.RetryAfter != c.retry || len(refusal.Causes) != 1 ||
				refusal.Causes[0] != (metav1.StatusCause{Type: policyv1.DisruptionBudgetCause, Message: c.cause}) {
				t.Errorf("got %+v", refusal)
			}
			if p, _ = stored(t, r, p); p.DeletionTimestamp != nil {
				t.Error("the pod was deleted")
			}
		})
	}
}

// TestEvictionWithManyUnconfirmed: with the maximum number of unconfirmed evictions, another one is allowed.
func TestEvictionWithManyUnconfirmed(t *testing.T) {
	r := running(t)
	p := podIn(t, r, corev1.PodRunning, true)
	going := map[string]metav1.Time{}
	for i := range 2000 {
		going[fmt.Sprint("pod-", i)] = metav1.Unix(1, 0)
	}
	budget(t, r, "pdb", policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 1, DisruptedPods: going})
	if _, err := act(t, r, "eviction", "web", evictionOf("web"), false); err != nil {
		t.Error(err)
	}
	if p, _ = stored(t, r, p); p.DeletionTimestamp == nil {
		t.Error("the pod was not removed")
	}
}

func TestEvictionUnderTwoBudgets(t *testing.T) {
	r := running(t)
	podIn(t, r, corev1.PodRunning, true)
	budget(t, r, "a", policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 1})
	budget(t, r, "b", policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 1})
	answer, err := act(t, r, "eviction", "web", evictionOf("web"), false)
	s, ok := answer.(*metav1.Status)
	if err != nil || !ok || s.Code != 500 || s.Message != "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support." {
		t.Errorf("got %v, %v", answer, err)
	}
}

func TestEvictionOfUnhealthyPods(t *testing.T) {
	always := policyv1.AlwaysAllow
	for _, c := range []struct {
		name   string
		policy *policyv1.UnhealthyPodEvictionPolicyType
		status policyv1.PodDisruptionBudgetStatus
		goes   bool
	}{
		{"always allowed", &always, policyv1.PodDisruptionBudgetStatus{CurrentHealthy: 0, DesiredHealthy: 2}, true},
		{"healthy enough without it", nil, policyv1.PodDisruptionBudgetStatus{CurrentHealthy: 2, DesiredHealthy: 2}, true},
		{"nothing is healthy or has to be", nil, policyv1.PodDisruptionBudgetStatus{}, false},
		{"not healthy enough", nil, policyv1.PodDisruptionBudgetStatus{CurrentHealthy: 1, DesiredHealthy: 2}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := running(t)
			p := podIn(t, r, corev1.PodRunning, false)
			pdb := budget(t, r, "pdb", c.status)
			pdb = change(t, r, "", pdb, func(pdb *policyv1.PodDisruptionBudget) { pdb.Spec.UnhealthyPodEvictionPolicy = c.policy })
			change(t, r, "status", pdb, func(pdb *policyv1.PodDisruptionBudget) { pdb.Status.ObservedGeneration = pdb.Generation })
			_, err := act(t, r, "eviction", "web", evictionOf("web"), false)
			if (err == nil) != c.goes {
				t.Errorf("got %v", err)
			}
			p, _ = stored(t, r, p)
			if (p.DeletionTimestamp != nil) != c.goes {
				t.Errorf("got %+v", p)
			}
		})
	}
}

// racing is an Access in which another write follows each of the first reads.
type racing struct {
	registry.Access
	t     *testing.T
	r     *registry.Registry
	races int
}

func (a *racing) Get(ctx context.Context, key registry.ObjectKey) (registry.Object, error) {
	obj, err := a.Access.Get(ctx, key)
	if err == nil && a.races > 0 {
		a.races--
		change(a.t, a.r, "status", obj.(*corev1.Pod), func(p *corev1.Pod) { p.Status.Message += "x" })
	}
	return obj, err
}

func TestEvictionAgainstOtherWrites(t *testing.T) {
	evict := registrytest.Find(t, core.Kinds(core.Options{}), "pods").Sub.Actions["eviction"].Run
	t.Run("a pending pod is retried", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := running(t)
			p := podIn(t, r, corev1.PodPending, false)
			began := time.Now()
			if _, err := evict(t.Context(), &racing{r.Access(), t, r, 2}, podKey("web"), evictionOf("web"), false); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took != time.Second {
				t.Errorf("took %v", took)
			}
			if p, _ = stored(t, r, p); p.DeletionTimestamp == nil {
				t.Error("the pod was not removed")
			}
		})
	})
	t.Run("not forever", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := running(t)
			podIn(t, r, corev1.PodPending, false)
			if _, err := evict(t.Context(), &racing{r.Access(), t, r, 1000}, podKey("web"), evictionOf("web"), false); !errors.Is(err, registry.ErrConflict) {
				t.Errorf("got %v", err)
			}
		})
	})
	t.Run("not after the context ended", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := running(t)
			podIn(t, r, corev1.PodPending, false)
			ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
			defer cancel()
			if _, err := evict(ctx, &racing{r.Access(), t, r, 1000}, podKey("web"), evictionOf("web"), false); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
		})
	})
	t.Run("an unhealthy pod may have become healthy", func(t *testing.T) {
		r := running(t)
		podIn(t, r, corev1.PodRunning, false)
		budget(t, r, "pdb", policyv1.PodDisruptionBudgetStatus{CurrentHealthy: 2, DesiredHealthy: 2})
		_, err := evict(t.Context(), &racing{r.Access(), t, r, 1}, podKey("web"), evictionOf("web"), false)
		var refusal *registry.Error
		if !errors.As(err, &refusal) || !errors.Is(err, registry.ErrTooManyRequests) || refusal.RetryAfter != 10 {
			t.Errorf("got %v", err)
		}
	})
}

// unlistable is an Access that lists nothing.
type unlistable struct{ registry.Access }

func (unlistable) List(context.Context, schema.GroupResource, string) ([]registry.Object, error) {
	return nil, errBroken
}

// TestEvictionWithoutList: a pod stays if it is not known which budgets protect it.
func TestEvictionWithoutList(t *testing.T) {
	r := running(t)
	p := podIn(t, r, corev1.PodRunning, true)
	evict := registrytest.Find(t, core.Kinds(core.Options{}), "pods").Sub.Actions["eviction"].Run
	if _, err := evict(t.Context(), unlistable{r.Access()}, podKey("web"), evictionOf("web"), false); !errors.Is(err, errBroken) {
		t.Errorf("got %v", err)
	}
	if p, _ = stored(t, r, p); p.DeletionTimestamp != nil {
		t.Error("the pod was deleted")
	}
}
