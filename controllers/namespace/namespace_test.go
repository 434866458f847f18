package namespace_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/internal/trial"
	"github.com/keelson-dev/keelson/controllers/namespace"
	"github.com/keelson-dev/keelson/informer"
)

var (
	namespaces = corev1.SchemeGroupVersion.WithResource("namespaces")
	configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")
	secrets    = corev1.SchemeGroupVersion.WithResource("secrets")
)

// bench is a running controller with its API and a namespace "shop", in a bubble.
type bench struct {
	*testing.T
	api       *controllerstest.API
	began     time.Time
	discovery error
	known     atomic.Bool // from then on discovery does not fail
	more      []schema.GroupVersionResource
	unmarked  bool          // see there
	client    *trial.Client // what the controller asks, if not the server itself
	log       *slog.Logger
}

func inBubble(t *testing.T, before func(*bench, faults.Request) error, test func(*bench)) {
	t.Helper()
	(&bench{}).run(t, before, test)
}

func (b *bench) run(t *testing.T, before func(*bench, faults.Request) error, test func(*bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b.T, b.began = t, time.Now()
		b.api = controllerstest.Start(t, controllerstest.Options{Before: func(r faults.Request) error {
			if before == nil {
				return nil
			}
			return before(b, r)
		}})
		in := informer.New(controllerstest.Source[*corev1.Namespace](b.api, namespaces), informer.Options{DetectMutations: func(err error) { t.Error(err) }})
		var asked client.Client = b.api
		if b.unmarked {
			asked = &unmarked{Client: asked, marked: map[types.UID]bool{}}
		}
		if b.client != nil {
			b.client.Client = asked
			asked = b.client
		}
		c := namespace.New(in, asked, func(context.Context) ([]schema.GroupVersionResource, error) {
			all := append([]schema.GroupVersionResource{configMaps, controllerstest.Pods(), secrets}, b.more...)
			if b.known.Load() {
				return all, nil
			}
			return all, b.discovery
		}, namespace.Options{})
		controllerstest.Go(t, in, controllers.NewLoop(c, controllers.Options{Logger: b.log}))
		controllerstest.Add(b, b.api, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
		test(b)
	})
}

// unmarked is a server that leaves it to the controller to call namespaces that are being deleted Terminating. The
// registry does both at once, but upstream's controller does not rely on it.
type unmarked struct {
	client.Client
	mu     sync.Mutex
	marked map[types.UID]bool
}

func (u *unmarked) Get(ctx context.Context, t client.Target) (runtime.Object, error) {
	ns, err := client.As[*corev1.Namespace](u.Client.Get(ctx, t))
	if err != nil {
		return nil, err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.marked[ns.UID] {
		ns.Status.Phase = corev1.NamespaceActive
	}
	return ns, nil
}

func (u *unmarked) Update(ctx context.Context, t client.Target, obj runtime.Object, o metav1.UpdateOptions) (runtime.Object, error) {
	ns, err := client.As[*corev1.Namespace](u.Client.Update(ctx, t, obj, o))
	if err != nil {
		return nil, err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.marked[ns.UID] = ns.Status.Phase == corev1.NamespaceTerminating
	return ns, nil
}

// put creates an object in the namespace.
func (b *bench) put(obj informer.Object) {
	b.Helper()
	obj.SetNamespace("shop")
	controllerstest.Add(b, b.api, obj)
	synctest.Wait()
}

// update is what somebody else writes.
func (b *bench) update(t client.Target, obj informer.Object) {
	b.Helper()
	if _, err := b.api.Others.Update(b.Context(), t, obj, metav1.UpdateOptions{}); err != nil {
		b.Fatal(err)
	}
}

func shop(subresource string) client.Target {
	return client.Target{Resource: namespaces, Name: "shop", Subresource: subresource}
}

func configMap(name string, finalizers ...string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: finalizers}}
}

// deleteShop begins the deletion; time is counted from here.
func (b *bench) deleteShop() {
	b.Helper()
	b.began = time.Now()
	if err := b.api.Others.Delete(b.Context(), shop(""), metav1.DeleteOptions{}); err != nil {
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
	ns, err := client.As[*corev1.Namespace](b.api.Others.Get(b.Context(), shop("")))
	if err != nil {
		b.Fatal(err)
	}
	return ns
}

func (b *bench) wantGone(want bool) {
	b.Helper()
	_, err := b.api.Others.Get(b.Context(), shop(""))
	if gone := apierrors.IsNotFound(err); gone != want {
		b.Errorf("after %v: gone is %v", time.Since(b.began), gone)
	}
}

// wantWrites compares what the controller wrote since the last call.
func (b *bench) wantWrites(want ...string) {
	b.Helper()
	var got []string
	for _, r := range b.api.Writes() {
		got = append(got, r.String())
	}
	b.api.Reset()
	if !slices.Equal(got, want) {
		b.Errorf("after %v: wrote\n%q, want\n%q", time.Since(b.began), got, want)
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

// wantConditions compares the conditions with the fine ones, but for those given.
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
	const status, finalize = "update namespaces/status shop", "update namespaces/finalize shop"
	for _, tt := range []struct {
		unmarked bool
		writes   []string
	}{{false, []string{status, finalize}}, {true, []string{status, status, finalize}}} {
		(&bench{unmarked: tt.unmarked}).run(t, nil, func(b *bench) {
			b.deleteShop()
			b.at(5*time.Second - time.Nanosecond)
			b.wantWrites()
			b.at(5 * time.Second)
			b.wantGone(true)
			b.wantWrites(tt.writes...)
			b.at(time.Hour)
			b.wantWrites()
		})
	}
}

// TestPodsFirst: nothing else is deleted while pods are left, which have their grace.
func TestPodsFirst(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		grace := int64(35)
		b.put(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{NodeName: "n", TerminationGracePeriodSeconds: &grace}})
		b.put(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "lone"}})
		b.put(configMap("cm"))
		b.deleteShop()
		b.at(5 * time.Second)
		b.wantWrites("delete pods shop/", "update namespaces/status shop")
		b.wantConditions()
		b.at(10 * time.Second) // after the change of its own status
		b.wantWrites("delete pods shop/")
		b.at(28*time.Second - 1) // half of 35 s, and one more
		b.wantWrites()
		b.at(28 * time.Second)
		b.wantWrites("delete pods shop/")
		at := client.Target{Resource: controllerstest.Pods(), Namespace: "shop", Name: "p"}
		if err := b.api.Others.Delete(b.Context(), at, *metav1.NewDeleteOptions(0)); err != nil {
			b.Fatal(err)
		}
		b.at(46*time.Second - 1)
		b.wantWrites()
		b.at(46 * time.Second)
		b.wantWrites("delete configmaps shop/", "update namespaces/finalize shop")
		b.wantGone(true)
	})
}

// TestStuckPod: a pod that outlives its grace is a failure.
func TestStuckPod(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		grace := int64(1)
		b.put(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{NodeName: "n", TerminationGracePeriodSeconds: &grace}})
		b.deleteShop()
		b.at(6 * time.Second)
		b.wantConditions("NamespaceDeletionContentFailure=True ContentDeletionFailed: Failed to delete all resource types, 1 remaining: unexpected items still remain in namespace: shop for gvr: /v1, Resource=pods")
		b.wantGone(false)
	})
}

// TestHeldObjects: finalizers of objects are waited for, eight seconds at a time.
func TestHeldObjects(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.put(configMap("a", "example.com/one", "example.com/two"))
		b.put(configMap("b", "example.com/one"))
		b.put(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s", Finalizers: []string{"example.com/two"}}})
		b.put(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "free"}})
		b.deleteShop()
		b.at(5 * time.Second)
		b.wantConditions(
			"NamespaceContentRemaining=True SomeResourcesRemain: Some resources are remaining: configmaps. has 2 resource instances, secrets. has 1 resource instances",
			"NamespaceFinalizersRemaining=True SomeFinalizersRemain: Some content in the namespace has finalizers remaining: example.com/one in 2 resource instances, example.com/two in 2 resource instances")
		began := b.shop().Status.Conditions[3].LastTransitionTime
		b.at(10 * time.Second)
		for _, name := range []string{"a", "b"} {
			b.update(client.Target{Resource: configMaps, Namespace: "shop", Name: name}, configMap(name))
		}
		b.api.Reset()
		b.at(18*time.Second - 1)
		b.wantWrites()
		b.at(18 * time.Second)
		b.wantWrites("delete secrets shop/", "update namespaces/status shop")
		b.wantConditions(
			"NamespaceContentRemaining=True SomeResourcesRemain: Some resources are remaining: secrets. has 1 resource instances",
			"NamespaceFinalizersRemaining=True SomeFinalizersRemain: Some content in the namespace has finalizers remaining: example.com/two in 1 resource instances")
		if got := b.shop().Status.Conditions[3].LastTransitionTime; !got.Equal(&began) {
			b.Errorf("the condition became true at %v and again at %v", began, got)
		}
	})
}

// TestFailures: everything is tried, each failure is told, and tried again within a minute.
func TestFailures(t *testing.T) {
	var tries []time.Duration
	inBubble(t, func(b *bench, r faults.Request) error {
		if r.Verb == faults.Delete && r.Target.Resource == configMaps {
			tries = append(tries, time.Since(b.began))
		}
		return nil
	}, func(b *bench) {
		b.api.Inject(faults.Fault{Verb: faults.Delete, Resource: "configmaps", Err: errors.New("no maps"), Times: -1})
		b.api.Inject(faults.Fault{Verb: faults.List, Resource: "pods", Err: errors.New("no pods"), Times: -1})
		b.discovery = errors.New("half of it")
		b.put(configMap("a"))
		b.put(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}})
		b.deleteShop()
		b.at(5 * time.Second)
		b.wantWrites("delete configmaps shop/", "delete secrets shop/", "update namespaces/status shop")
		b.wantConditions("NamespaceDeletionDiscoveryFailure=True DiscoveryFailed: half of it",
			"NamespaceDeletionContentFailure=True ContentDeletionFailed: Failed to delete all resource types, 2 remaining: no maps, no pods")
		b.at(time.Hour)
		last := len(tries) - 1
		if got := tries[last] - tries[last-1]; got != time.Minute {
			b.Errorf("the last pause was %v", got)
		}
		if got := tries[1] - tries[0]; got != 5*time.Millisecond {
			b.Errorf("the first pause was %v", got)
		}
	})
}

// TestConflicts: others write to the namespace, too, and some writes do not matter.
func TestConflicts(t *testing.T) {
	conflict := apierrors.NewConflict(namespaces.GroupResource(), "shop", errors.New("late"))
	(&bench{unmarked: true}).run(t, nil, func(b *bench) {
		b.api.Inject(faults.Fault{Resource: "namespaces/status", Err: conflict})
		b.api.Inject(faults.Fault{Resource: "namespaces/status", Err: conflict, Skip: 1}) // the conditions
		b.api.Inject(faults.Fault{Resource: "namespaces/finalize", Err: conflict})
		b.deleteShop()
		b.at(5 * time.Second)
		b.wantGone(true)
		b.wantWrites("update namespaces/status shop", "update namespaces/status shop", "update namespaces/status shop",
			"update namespaces/finalize shop", "update namespaces/finalize shop")
	})
}

// TestNoDeleteCollection: where a collection cannot be deleted at once, its objects are one by one.
func TestNoDeleteCollection(t *testing.T) {
	inBubble(t, func(_ *bench, a faults.Request) error {
		if a.Verb == faults.Delete && a.Target.Name == "" {
			return apierrors.NewMethodNotSupported(a.Target.Resource.GroupResource(), "deletecollection")
		}
		return nil
	}, func(b *bench) {
		b.put(configMap("a"))
		b.put(configMap("b"))
		b.deleteShop()
		b.at(5 * time.Second)
		b.wantGone(true)
		b.wantWrites("delete configmaps shop/", "delete configmaps shop/a", "delete configmaps shop/b",
			"update namespaces/status shop", "update namespaces/finalize shop")
	})
}

// TestOtherFinalizer: a namespace waits for the finalizers of others, too.
func TestOtherFinalizer(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		ns := b.shop()
		ns.Spec.Finalizers = []corev1.FinalizerName{"example.com/audit", "kubernetes"}
		b.update(shop("finalize"), ns)
		b.at(time.Minute)
		b.deleteShop()
		b.at(time.Minute)
		if got := b.shop().Spec.Finalizers; len(got) != 1 || got[0] != "example.com/audit" {
			b.Errorf("finalizers %v", got)
		}
	})
}

// remake puts another namespace, which is not being deleted, in the place of one that is, with a config map in it.
func (b *bench) remake() {
	b.Helper()
	old := b.shop()
	old.Spec.Finalizers = nil
	b.update(shop("finalize"), old)
	kept := configMap("a")
	kept.Namespace = "shop"
	if err := b.api.Add(b.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, kept); err != nil {
		b.Error(err)
	}
}

// wantUntouched checks that the namespace is not being deleted and has what remake put there.
func (b *bench) wantUntouched() {
	b.Helper()
	ns := b.shop()
	if ns.DeletionTimestamp != nil || ns.Status.Phase == corev1.NamespaceTerminating || len(ns.Status.Conditions) > 0 || len(ns.Spec.Finalizers) != 1 {
		b.Errorf("after %v: the namespace is %+v", time.Since(b.began), ns)
	}
	if _, err := b.api.Others.Get(b.Context(), client.Target{Resource: configMaps, Namespace: "shop", Name: "a"}); err != nil {
		b.Errorf("after %v: its content: %v", time.Since(b.began), err)
	}
}

// TestMadeAgain: a namespace of the same name that came after the one being deleted keeps what is in it, whenever it came.
func TestMadeAgain(t *testing.T) {
	t.Run("before the first look", func(t *testing.T) {
		inBubble(t, nil, func(b *bench) {
			b.deleteShop()
			b.at(time.Second)
			b.remake()
			b.at(time.Hour)
			b.wantUntouched()
		})
	})
	for name, tt := range map[string]struct {
		unmarked    bool
		subresource string
	}{"before it is marked": {true, "status"}, "before its conditions": {false, "status"}, "before it is finalized": {false, "finalize"}} {
		t.Run(name, func(t *testing.T) {
			made := false
			(&bench{unmarked: tt.unmarked}).run(t, func(b *bench, r faults.Request) error {
				if r.Target.Subresource != tt.subresource || made {
					return nil
				}
				made = true
				b.remake()
				return nil // the update comes to another namespace, and conflicts
			}, func(b *bench) {
				b.deleteShop()
				b.at(time.Hour)
				if !made {
					b.Error("it was not made again")
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
		before    func(lists int, a faults.Request) error
	}{
		"kinds unknown": {discovery: errors.New("half of it")},
		"what is left unknown": {before: func(lists int, a faults.Request) error {
			if a.Verb == faults.List && a.Target.Resource == configMaps && lists%2 == 0 { // each second list
				return errors.New("down")
			}
			return nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			lists := 0
			inBubble(t, func(b *bench, a faults.Request) error {
				if a.Verb == faults.List && a.Target.Resource == configMaps {
					lists++
				}
				if !b.known.Load() && tt.before != nil {
					return tt.before(lists, a)
				}
				return nil
			}, func(b *bench) {
				b.discovery = tt.discovery
				b.put(configMap("held", "example.com/hold"))
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
	obj, err := client.As[*corev1.ConfigMap](b.api.Others.Get(b.Context(), at))
	if apierrors.IsNotFound(err) {
		return
	}
	if err != nil {
		b.Fatal(err)
	}
	obj.Finalizers = nil
	b.update(at, obj)
}
