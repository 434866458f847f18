package namespace_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/internal/trial"
	"github.com/keelson-dev/keelson/informer"
)

// TestEveryFailure: whichever request fails, the failure is reported and made up for; but for conditions that cannot be written,
// which are written the next time.
func TestEveryFailure(t *testing.T) {
	late := map[string]bool{}
	for name, before := range map[string]func(*bench, faults.Request) error{
		"collections": nil,
		"one by one": func(_ *bench, a faults.Request) error {
			if a.Verb == faults.Delete && a.Target.Name == "" {
				return apierrors.NewMethodNotSupported(a.Target.Resource.GroupResource(), "deletecollection")
			}
			return nil
		},
		"conflicts": func(_ *bench, a faults.Request) error {
			if a.Verb == faults.Update && a.Target.Resource == namespaces && !late[a.Target.Subresource] {
				late[a.Target.Subresource] = true
				return apierrors.NewConflict(namespaces.GroupResource(), "shop", errors.New("late"))
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			conditions := func(request string) bool { return strings.HasPrefix(request, "update namespaces/status") }
			trial.EveryFailure(t, conditions, func(c *trial.Client, log *slog.Logger) (state string) {
				clear(late)
				(&bench{unmarked: true, client: c, log: log}).run(t, before, func(b *bench) {
					b.put(configMap("a"))
					b.put(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}})
					b.deleteShop()
					b.at(time.Hour)
					_, err := b.api.Others.Get(b.Context(), shop(""))
					state = fmt.Sprint("gone: ", apierrors.IsNotFound(err))
				})
				return state
			})
		})
	}
}

// TestGoneMeanwhile: a namespace that went by itself is no failure, and not asked for again.
func TestGoneMeanwhile(t *testing.T) {
	for name, tt := range map[string]struct {
		unmarked bool
		when     func(faults.Request) bool
	}{
		"when it is read":      {false, func(r faults.Request) bool { return r.Verb == faults.Get }},
		"when it is marked":    {true, func(r faults.Request) bool { return r.Target.Subresource == "status" }},
		"when it is finalized": {false, func(r faults.Request) bool { return r.Target.Subresource == "finalize" }},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			deleted, asked := false, 0
			b := &bench{unmarked: tt.unmarked, log: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelWarn}))}
			b.run(t, func(b *bench, r faults.Request) error {
				switch {
				case r.Target.Resource != namespaces:
				case deleted:
					asked++
				case tt.when(r):
					deleted = true
					ns := b.shop()
					ns.Spec.Finalizers = nil
					b.update(shop("finalize"), ns)
				}
				return nil
			}, func(b *bench) {
				b.deleteShop()
				b.at(time.Hour)
				if out.Len() > 0 || !deleted || asked > 0 {
					b.Errorf("deleted %t, asked %d times, logged %s", deleted, asked, out.String())
				}
			})
		})
	}
}

// TestHeldNamespace: what others put into a namespace that only they hold any more is left alone.
func TestHeldNamespace(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		ns := b.shop()
		ns.Finalizers = []string{"example.com/hold"}
		b.update(shop(""), ns)
		b.deleteShop()
		b.at(time.Minute)
		b.put(configMap("late"))
		ns = b.shop()
		ns.Annotations = map[string]string{"a": "b"}
		b.update(shop(""), ns)
		b.api.Reset()
		b.at(2 * time.Minute)
		b.wantWrites()
	})
}

// TestConditionsInTime: a condition says since when it is as it is, and changes also when only its status does.
func TestConditionsInTime(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.discovery = errors.New("All resources successfully discovered") // the very words of success
		b.put(configMap("held", "example.com/hold"))
		b.deleteShop()
		b.at(5 * time.Second)
		bad := "NamespaceDeletionDiscoveryFailure=True DiscoveryFailed: All resources successfully discovered"
		held := []string{
			"NamespaceContentRemaining=True SomeResourcesRemain: Some resources are remaining: configmaps. has 1 resource instances",
			"NamespaceFinalizersRemaining=True SomeFinalizersRemain: Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances",
		}
		b.wantConditions(append(held, bad)...)
		since := func() (out []time.Duration) {
			for _, c := range b.shop().Status.Conditions[:2] {
				out = append(out, c.LastTransitionTime.Sub(b.began).Truncate(time.Second))
			}
			return out
		}
		if got := fmt.Sprint(since()); got != "[5s 5s]" {
			b.Errorf("since %s", got)
		}
		b.at(20 * time.Second)
		b.known.Store(true)
		b.at(10 * time.Minute)
		b.wantConditions(held...)
		if got := since(); got[0] <= 20*time.Second || got[1] != 5*time.Second {
			b.Errorf("since %v", got)
		}
	})
}

// TestOrderOfWhatRemains: resources and finalizers are told in the order of their names.
func TestOrderOfWhatRemains(t *testing.T) {
	b := &bench{more: []schema.GroupVersionResource{
		{Version: "v1", Resource: "serviceaccounts"}, {Version: "v1", Resource: "endpoints"}, {Version: "v1", Resource: "services"},
		{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}, {Version: "v1", Resource: "resourcequotas"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"},
	}}
	b.run(t, nil, func(b *bench) {
		m := metav1.ObjectMeta{Name: "x", Finalizers: []string{"x/f", "x/b", "x/e", "x/a", "x/c", "x/d"}}
		for _, obj := range []informer.Object{
			&corev1.ServiceAccount{ObjectMeta: m}, &corev1.Endpoints{ObjectMeta: m}, &corev1.Service{ObjectMeta: m},
			&coordinationv1.Lease{ObjectMeta: m}, &corev1.ResourceQuota{ObjectMeta: m}, &rbacv1.Role{ObjectMeta: m},
		} {
			b.put(obj)
		}
		b.deleteShop()
		b.at(5 * time.Second)
		var resources, finalizers []string
		for _, r := range []string{"endpoints.", "leases.coordination.k8s.io", "resourcequotas.", "roles.rbac.authorization.k8s.io", "serviceaccounts.", "services."} {
			resources = append(resources, r+" has 1 resource instances")
		}
		for _, f := range []string{"a", "b", "c", "d", "e", "f"} {
			finalizers = append(finalizers, "x/"+f+" in 6 resource instances")
		}
		b.wantConditions(
			"NamespaceContentRemaining=True SomeResourcesRemain: Some resources are remaining: "+strings.Join(resources, ", "),
			"NamespaceFinalizersRemaining=True SomeFinalizersRemain: Some content in the namespace has finalizers remaining: "+strings.Join(finalizers, ", "))
	})
}

// TestGraceOfPods: a pod that ended has no grace, so only its finalizers are waited for; one whose grace is just over is stuck.
func TestGraceOfPods(t *testing.T) {
	for phase, want := range map[corev1.PodPhase]string{
		corev1.PodSucceeded: "[5s 10s 18s 26s 34s 42s 50s 58s]", corev1.PodFailed: "[5s 10s 18s 26s 34s 42s 50s 58s]", corev1.PodRunning: "[5s 10s]",
	} {
		t.Run(string(phase), func(t *testing.T) {
			var looks []time.Duration
			inBubble(t, func(b *bench, a faults.Request) error {
				if a.Verb == faults.Delete && a.Target.Resource == controllerstest.Pods() {
					looks = append(looks, time.Since(b.began))
				}
				return nil
			}, func(b *bench) {
				grace := int64(100)
				b.put(&corev1.Pod{
					ObjectMeta: metav1.ObjectMeta{Name: "p", Finalizers: []string{"example.com/hold"}},
					Spec:       corev1.PodSpec{NodeName: "n", TerminationGracePeriodSeconds: &grace}, Status: corev1.PodStatus{Phase: phase},
				})
				b.deleteShop()
				b.at(time.Minute)
				if got := fmt.Sprint(looks); got != want {
					b.Errorf("looked after %s, want %s", got, want)
				}
			})
		})
	}
	inBubble(t, nil, func(b *bench) {
		grace := int64(5)
		b.put(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{NodeName: "n", TerminationGracePeriodSeconds: &grace}})
		b.at(b.began.Truncate(time.Second).Add(time.Second).Sub(b.began)) // deletions are stamped with whole seconds
		b.deleteShop()
		b.at(5 * time.Second)
		b.wantConditions("NamespaceDeletionContentFailure=True ContentDeletionFailed: Failed to delete all resource types, 1 remaining: unexpected items still remain in namespace: shop for gvr: /v1, Resource=pods")
	})
}
