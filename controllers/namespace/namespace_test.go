package namespace_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/internal/trial"
	"github.com/keelson-dev/keelson/controllers/namespace"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/internal/fakeapi"
	"github.com/keelson-dev/keelson/lifecycle"
)

var (
	namespaces = corev1.SchemeGroupVersion.WithResource("namespaces")
	configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")
	secrets    = corev1.SchemeGroupVersion.WithResource("secrets")
)

// bench is a running controller with a server and a namespace "shop", in a bubble.
type bench struct {
	*testing.T
	api       *fakeapi.Server
	began     time.Time
	discovery error
	known     atomic.Bool // from then on discovery does not fail
	more      []schema.GroupVersionResource
	client    *trial.Client // what the controller asks, if not the server itself
	log       *slog.Logger
}

func inBubble(t *testing.T, before func(*bench, fakeapi.Action) error, test func(t *testing.T, b *bench)) {
	t.Helper()
	(&bench{}).run(t, before, test)
}

func (b *bench) run(t *testing.T, before func(*bench, fakeapi.Action) error, test func(t *testing.T, b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b.T, b.began = t, time.Now()
		b.api = fakeapi.New(fakeapi.Options{Before: func(a fakeapi.Action) error {
			if before == nil {
				return nil
			}
			return before(b, a)
		}})
		in := informer.New(fakeapi.Source[*corev1.Namespace](b.api, namespaces), informer.Options{DetectMutations: func(err error) { t.Error(err) }})
		var asked namespace.Client = b.api
		if b.client != nil {
			b.client.Client = b.api
			asked = b.client
		}
		c := namespace.New(in, asked, func() ([]schema.GroupVersionResource, error) {
			all := append([]schema.GroupVersionResource{configMaps, fakeapi.Pods, secrets}, b.more...)
			if b.known.Load() {
				return all, nil
			}
			return all, b.discovery
		}, namespace.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			done <- lifecycle.Group(in, controllers.NewLoop(c, controllers.Options{Logger: b.log})).Run(ctx)
		}()
		b.create(namespaces, &corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: "shop"}, Spec: corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{"kubernetes"}},
		})
		test(t, b)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func (b *bench) create(resource schema.GroupVersionResource, obj informer.Object) {
	b.Helper()
	at := client.Target{Resource: resource, Namespace: "shop"}
	if resource == namespaces {
		at.Namespace = ""
	}
	if _, err := b.api.Create(b.Context(), at, obj, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
}

func configMap(name string, finalizers ...string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: finalizers}}
}

// deleteShop begins the deletion; time is counted from here.
func (b *bench) deleteShop() {
	b.Helper()
	b.api.Reset()
	b.began = time.Now()
	if err := b.api.Delete(b.Context(), client.Target{Resource: namespaces, Name: "shop"}, metav1.DeleteOptions{}); err != nil {
		b.Fatal(err)
	}
}

// at waits until a moment after the deletion.
func (b *bench) at(d time.Duration) {
	time.Sleep(time.Until(b.began.Add(d)))
	synctest.Wait()
}

func (b *bench) shop() *corev1.Namespace {
	b.Helper()
	ns, err := client.As[*corev1.Namespace](b.api.Get(b.Context(), client.Target{Resource: namespaces, Name: "shop"}))
	if err != nil {
		b.Fatal(err)
	}
	return ns
}

func (b *bench) wantGone(want bool) {
	b.Helper()
	_, err := b.api.Get(b.Context(), client.Target{Resource: namespaces, Name: "shop"})
	if gone := apierrors.IsNotFound(err); gone != want {
		b.Errorf("after %v: gone is %v", time.Since(b.began), gone)
	}
}

// wantActions holds the writes since the last call to what is wanted.
func (b *bench) wantActions(want ...string) {
	b.Helper()
	var got []string
	for _, a := range b.api.Actions() {
		got = append(got, a.String())
	}
	b.api.Reset()
	if !slices.Equal(got, want) {
		b.Errorf("after %v: did\n%q, want\n%q", time.Since(b.began), got, want)
	}
}

// The conditions of a namespace whose deletion goes well.
var fine = []string{
	"NamespaceDeletionDiscoveryFailure=False ResourcesDiscovered: All resources successfully discovered",
	"NamespaceDeletionGroupVersionParsingFailure=False ParsedGroupVersions: All legacy kube types successfully parsed",
	"NamespaceDeletionContentFailure=False ContentDeleted: All content successfully deleted, may be waiting on finalization",
	"NamespaceContentRemaining=False ContentRemoved: All content successfully removed",
	"NamespaceFinalizersRemaining=False ContentHasNoFinalizers: All content-preserving finalizers finished",
}

// wantConditions holds the conditions to the fine ones but for those given.
func (b *bench) wantConditions(other ...string) {
	b.Helper()
	want := slices.Clone(fine)
	for _, o := range other {
		name, _, _ := strings.Cut(o, "=")
		i := slices.IndexFunc(want, func(w string) bool { return strings.HasPrefix(w, name+"=") })
		want[i] = o
	}
	var got []string
	for _, c := range b.shop().Status.Conditions {
		got = append(got, fmt.Sprintf("%s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message))
	}
	if !slices.Equal(got, want) {
		b.Errorf("after %v: conditions\n%s\nwant\n%s", time.Since(b.began), strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestEmptyNamespace(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, b *bench) {
		b.deleteShop()
		b.at(5*time.Second - time.Nanosecond)
		b.wantActions("delete namespaces shop")
		b.at(5 * time.Second)
		b.wantGone(true)
		b.wantActions("update namespaces/status shop", "update namespaces/status shop", "update namespaces/finalize shop")
		b.at(time.Hour)
		b.wantActions()
	})
}

// TestPodsFirst: nothing else is deleted while pods are left, which have their grace.
func TestPodsFirst(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, b *bench) {
		grace := int64(35)
		b.create(fakeapi.Pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{NodeName: "n", TerminationGracePeriodSeconds: &grace}})
		b.create(fakeapi.Pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "lone"}})
		b.create(configMaps, configMap("cm"))
		b.deleteShop()
		b.at(5 * time.Second)
		b.wantActions("delete namespaces shop", "update namespaces/status shop", "delete pods shop/", "update namespaces/status shop")
		b.wantConditions()
		b.at(10 * time.Second) // after the change of its own status
		b.wantActions("delete pods shop/")
		b.at(28*time.Second - 1) // half of 35 s, and one more
		b.wantActions()
		b.at(28 * time.Second)
		b.wantActions("delete pods shop/")
		now := int64(0)
		if err := b.api.Delete(b.Context(), client.Target{Resource: fakeapi.Pods, Namespace: "shop", Name: "p"}, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
			t.Fatal(err)
		}
		b.at(46*time.Second - 1)
		b.wantActions("delete pods shop/p")
		b.at(46 * time.Second)
		b.wantActions("delete configmaps shop/", "update namespaces/finalize shop")
		b.wantGone(true)
	})
}

// TestStuckPod: a pod that outlives its grace is a failure.
func TestStuckPod(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, b *bench) {
		grace := int64(1)
		b.create(fakeapi.Pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{NodeName: "n", TerminationGracePeriodSeconds: &grace}})
		b.deleteShop()
		b.at(6 * time.Second)
		b.wantConditions("NamespaceDeletionContentFailure=True ContentDeletionFailed: Failed to delete all resource types, 1 remaining: unexpected items still remain in namespace: shop for gvr: /v1, Resource=pods")
		b.wantGone(false)
	})
}

// TestHeldObjects: finalizers of objects are waited for, eight seconds at a time.
func TestHeldObjects(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, b *bench) {
		b.create(configMaps, configMap("a", "example.com/one", "example.com/two"))
		b.create(configMaps, configMap("b", "example.com/one"))
		b.create(secrets, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s", Finalizers: []string{"example.com/two"}}})
		b.create(secrets, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "free"}})
		b.deleteShop()
		b.at(5 * time.Second)
		b.wantConditions(
			"NamespaceContentRemaining=True SomeResourcesRemain: Some resources are remaining: configmaps. has 2 resource instances, secrets. has 1 resource instances",
			"NamespaceFinalizersRemaining=True SomeFinalizersRemain: Some content in the namespace has finalizers remaining: example.com/one in 2 resource instances, example.com/two in 2 resource instances")
		began := b.shop().Status.Conditions[3].LastTransitionTime
		b.at(10 * time.Second)
		for _, name := range []string{"a", "b"} {
			if _, err := b.api.Update(b.Context(), client.Target{Resource: configMaps, Namespace: "shop", Name: name}, configMap(name), metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		b.api.Reset()
		b.at(18*time.Second - 1)
		b.wantActions()
		b.at(18 * time.Second)
		b.wantActions("delete secrets shop/", "update namespaces/status shop")
		b.wantConditions(
			"NamespaceContentRemaining=True SomeResourcesRemain: Some resources are remaining: secrets. has 1 resource instances",
			"NamespaceFinalizersRemaining=True SomeFinalizersRemain: Some content in the namespace has finalizers remaining: example.com/two in 1 resource instances")
		if got := b.shop().Status.Conditions[3].LastTransitionTime; !got.Equal(&began) {
			t.Errorf("the condition became true at %v and again at %v", began, got)
		}
	})
}

// TestFailures: everything is tried, each failure is told, and tried again within a minute.
func TestFailures(t *testing.T) {
	var tries []time.Duration
	inBubble(t, func(b *bench, a fakeapi.Action) error {
		switch {
		case a.Verb == fakeapi.Delete && a.Target.Resource == configMaps:
			tries = append(tries, time.Since(b.began))
			return errors.New("no maps")
		case a.Verb == fakeapi.List && a.Target.Resource == fakeapi.Pods:
			return errors.New("no pods")
		}
		return nil
	}, func(t *testing.T, b *bench) {
		b.discovery = errors.New("half of it")
		b.create(configMaps, configMap("a"))
		b.create(secrets, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}})
		b.deleteShop()
		b.at(5 * time.Second)
		b.wantActions("delete namespaces shop", "update namespaces/status shop", "delete configmaps shop/", "delete secrets shop/", "update namespaces/status shop")
		b.wantConditions("NamespaceDeletionDiscoveryFailure=True DiscoveryFailed: half of it",
			"NamespaceDeletionContentFailure=True ContentDeletionFailed: Failed to delete all resource types, 2 remaining: no maps, no pods")
		b.at(time.Hour)
		last := len(tries) - 1
		if got := tries[last] - tries[last-1]; got != time.Minute {
			t.Errorf("the last pause was %v", got)
		}
		if got := tries[1] - tries[0]; got != 5*time.Millisecond {
			t.Errorf("the first pause was %v", got)
		}
	})
}

// TestConflicts: others write to the namespace, too, and some writes do not matter.
func TestConflicts(t *testing.T) {
	var failed []string
	inBubble(t, func(_ *bench, a fakeapi.Action) error {
		ns, ok := a.Object.(*corev1.Namespace)
		if !ok || a.Verb != fakeapi.Update {
			return nil
		}
		what := a.Target.Subresource + fmt.Sprint(len(ns.Status.Conditions) > 0)
		if slices.Contains(failed, what) {
			return nil
		}
		failed = append(failed, what)
		return apierrors.NewConflict(namespaces.GroupResource(), "shop", errors.New("late"))
	}, func(t *testing.T, b *bench) {
		b.deleteShop()
		b.at(5 * time.Second)
		b.wantGone(true)
		b.wantActions("delete namespaces shop", "update namespaces/status shop", "update namespaces/status shop", "update namespaces/status shop",
			"update namespaces/finalize shop", "update namespaces/finalize shop")
	})
}

// TestNoDeleteCollection: where a collection cannot be deleted at once, its objects are one by one.
func TestNoDeleteCollection(t *testing.T) {
	inBubble(t, func(_ *bench, a fakeapi.Action) error {
		if a.Verb == fakeapi.Delete && a.Target.Name == "" {
			return apierrors.NewMethodNotSupported(a.Target.Resource.GroupResource(), "deletecollection")
		}
		return nil
	}, func(t *testing.T, b *bench) {
		b.create(configMaps, configMap("a"))
		b.create(configMaps, configMap("b"))
		b.deleteShop()
		b.at(5 * time.Second)
		b.wantGone(true)
		b.wantActions("delete namespaces shop", "update namespaces/status shop", "delete configmaps shop/", "delete configmaps shop/a", "delete configmaps shop/b",
			"update namespaces/status shop", "update namespaces/finalize shop")
	})
}

// TestOtherFinalizer: a namespace waits for the finalizers of others, too.
func TestOtherFinalizer(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, b *bench) {
		ns := b.shop()
		ns.Spec.Finalizers = []corev1.FinalizerName{"example.com/audit", "kubernetes"}
		at := client.Target{Resource: namespaces, Name: "shop", Subresource: "finalize"}
		if _, err := b.api.Update(b.Context(), at, ns, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		b.at(time.Minute)
		b.api.Reset()
		b.deleteShop()
		b.at(time.Minute)
		if got := b.shop().Spec.Finalizers; len(got) != 1 || got[0] != "example.com/audit" {
			t.Errorf("finalizers %v", got)
		}
	})
}

// remake puts another namespace, which is not being deleted, in the place of one that is, with a config map in it.
func (b *bench) remake() {
	b.Helper()
	at := client.Target{Resource: namespaces, Name: "shop", Subresource: "finalize"}
	old := b.shop()
	old.Spec.Finalizers = nil
	if _, err := b.api.Update(b.Context(), at, old, metav1.UpdateOptions{}); err != nil {
		b.Error(err)
	}
	again := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}, Spec: corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{"kubernetes"}}}
	if _, err := b.api.Create(b.Context(), client.Target{Resource: namespaces}, again, metav1.CreateOptions{}); err != nil {
		b.Error(err)
	}
	if _, err := b.api.Create(b.Context(), client.Target{Resource: configMaps, Namespace: "shop"}, configMap("a"), metav1.CreateOptions{}); err != nil {
		b.Error(err)
	}
}

// wantUntouched holds that the namespace lives and has what remake put there.
func (b *bench) wantUntouched() {
	b.Helper()
	ns := b.shop()
	if ns.DeletionTimestamp != nil || ns.Status.Phase == corev1.NamespaceTerminating || len(ns.Status.Conditions) > 0 || len(ns.Spec.Finalizers) != 1 {
		b.Errorf("after %v: the namespace is %+v", time.Since(b.began), ns)
	}
	if _, err := b.api.Get(b.Context(), client.Target{Resource: configMaps, Namespace: "shop", Name: "a"}); err != nil {
		b.Errorf("after %v: its content: %v", time.Since(b.began), err)
	}
}

// TestMadeAgain: a namespace of the same name that came after the one being deleted keeps what is in it, whenever it came.
func TestMadeAgain(t *testing.T) {
	t.Run("before the first look", func(t *testing.T) {
		inBubble(t, nil, func(_ *testing.T, b *bench) {
			b.deleteShop()
			b.at(time.Second)
			b.remake()
			b.at(time.Hour)
			b.wantUntouched()
		})
	})
	for _, subresource := range []string{"status", "finalize"} {
		t.Run("before its "+subresource, func(t *testing.T) {
			made := false
			inBubble(t, func(b *bench, a fakeapi.Action) error {
				if a.Verb != fakeapi.Update || a.Target.Subresource != subresource || made {
					return nil
				}
				made = true
				b.remake()
				return nil // the update comes to another namespace, and conflicts
			}, func(t *testing.T, b *bench) {
				b.deleteShop()
				b.at(time.Hour)
				if !made {
					t.Error("it was not made again")
				}
				b.wantUntouched()
			})
		})
	}
}

// TestUnknownContent: a namespace does not go while it is not known that nothing is in it.
func TestUnknownContent(t *testing.T) {
	for name, tt := range map[string]struct {
		discovery error
		before    func(lists int, a fakeapi.Action) error
	}{
		"kinds unknown": {discovery: errors.New("half of it")},
		"what is left unknown": {before: func(lists int, a fakeapi.Action) error {
			if a.Verb == fakeapi.List && a.Target.Resource == configMaps && lists%2 == 0 { // each second list
				return errors.New("down")
			}
			return nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			lists := 0
			inBubble(t, func(b *bench, a fakeapi.Action) error {
				if a.Verb == fakeapi.List && a.Target.Resource == configMaps {
					lists++
				}
				if !b.known.Load() && tt.before != nil {
					return tt.before(lists, a)
				}
				return nil
			}, func(_ *testing.T, b *bench) {
				b.discovery = tt.discovery
				b.create(configMaps, configMap("held", "example.com/hold"))
				b.deleteShop()
				b.at(10 * time.Minute)
				b.wantGone(false)
				if tt.discovery != nil {
					b.release("held")
					b.at(20 * time.Minute)
					b.wantGone(false)
				}
				b.known.Store(true)
				b.release("held")
				b.at(time.Hour)
				b.wantGone(true)
			})
		})
	}
}

// release takes the finalizers off a config map, if it is there.
func (b *bench) release(name string) {
	b.Helper()
	at := client.Target{Resource: configMaps, Namespace: "shop", Name: name}
	obj, err := client.As[*corev1.ConfigMap](b.api.Get(b.Context(), at))
	if apierrors.IsNotFound(err) {
		return
	}
	if err != nil {
		b.Fatal(err)
	}
	obj.Finalizers = nil
	if _, err := b.api.Update(b.Context(), at, obj, metav1.UpdateOptions{}); err != nil {
		b.Fatal(err)
	}
}
