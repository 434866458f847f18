package ownership_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/internal/pods"
	"github.com/keelson-dev/keelson/controllers/ownership"
	"github.com/keelson-dev/keelson/informer"
)

func setKind() ownership.Kind {
	return ownership.Kind{GroupVersionKind: appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), Resource: "replicasets"}
}

func create[T informer.Object](t *testing.T, api *controllerstest.API, k ownership.Kind, obj T) T {
	t.Helper()
	out, err := api.Create(t.Context(), k.Target("ns", ""), controllerstest.Complete(obj), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return out.(T)
}

func podNamed(name, app string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": app}}}
}

func TestClaim(t *testing.T) {
	var fail error
	api := controllerstest.Start(t, controllerstest.Options{Before: func(a faults.Request) error {
		if a.Verb == faults.Patch {
			return fail
		}
		return nil
	}})
	set := create(t, api, setKind(), &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "set"}})
	var wrote []string
	owner := ownership.Owner{Object: set, Kind: setKind(), Selector: labels.SelectorFromSet(labels.Set{"app": "a"}),
		Wrote: func(obj metav1.Object) { wrote = append(wrote, obj.GetName()) }}
	gone := podNamed("gone", "a")
	gone.Namespace, gone.UID = "ns", "gone"
	elsewhere := podNamed("elsewhere", "a")
	elsewhere.Namespace = "other"
	foreign := podNamed("foreign", "a")
	foreign.OwnerReferences = []metav1.OwnerReference{{UID: "x", Controller: new(bool)}}
	*foreign.OwnerReferences[0].Controller = true
	all := []*corev1.Pod{create(t, api, pods.Kind(), podNamed("orphan", "a")), create(t, api, pods.Kind(), podNamed("stranger", "b")), gone, elsewhere, foreign}

	claimed, err := ownership.Claim(t.Context(), api, owner, pods.Kind(), all)
	if err != nil || len(claimed) != 1 || claimed[0].Name != "orphan" || strings.Join(wrote, " ") != "orphan" {
		t.Fatalf("claimed %v, %v; wrote %v", claimed, err, wrote)
	}
	got, err := api.Get(t.Context(), pods.Kind().Target("ns", "orphan"))
	if err != nil || !metav1.IsControlledBy(got.(*corev1.Pod), set) {
		t.Fatalf("not adopted: %v, %v", got, err)
	}
	ours := got.(*corev1.Pod)
	owner.Also = func(pod metav1.Object) bool { return pod.GetName() == "another" }
	another := create(t, api, pods.Kind(), podNamed("another", "a"))
	unwanted := create(t, api, pods.Kind(), podNamed("unwanted", "a"))
	claimed, err = ownership.Claim(t.Context(), api, owner, pods.Kind(), []*corev1.Pod{ours, another, unwanted})
	if err != nil || len(claimed) != 1 || claimed[0].Name != "another" || strings.Join(wrote, " ") != "orphan orphan another" {
		t.Fatalf("with a second condition, claimed %v, %v; wrote %v", claimed, err, wrote)
	}
	owner.Also, wrote = nil, nil
	ours.Labels = nil
	fail = errors.New("down")
	if _, err := ownership.Claim(t.Context(), api, owner, pods.Kind(), []*corev1.Pod{ours, all[0]}); err == nil || err.Error() != "down" {
		t.Errorf("both failures, told once: %v", err)
	}
	fail = nil
	deleted := set.DeepCopy()
	deleted.DeletionTimestamp = &metav1.Time{}
	owner.Object = deleted
	if claimed, err := ownership.Claim(t.Context(), api, owner, pods.Kind(), []*corev1.Pod{ours, all[0]}); err != nil || len(claimed) != 0 || len(wrote) != 0 {
		t.Errorf("an owner being deleted claims nothing: %v, %v", claimed, err)
	}
}

func TestRecheck(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*testing.T, *controllerstest.API, *appsv1.ReplicaSet)
		want   string
	}{
		"gone": {func(t *testing.T, api *controllerstest.API, _ *appsv1.ReplicaSet) {
			if err := api.Delete(t.Context(), setKind().Target("ns", "set"), metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}, `can't adopt Pod ns/orphan (uid-00002): can't recheck DeletionTimestamp: replicasets.apps "set" not found`},
		"another": {func(_ *testing.T, _ *controllerstest.API, set *appsv1.ReplicaSet) { set.UID = "before" },
			"can't adopt Pod ns/orphan (uid-00002): can't recheck DeletionTimestamp: original ReplicaSet ns/set is gone: got uid uid-00001, wanted before"},
	} {
		api := controllerstest.Start(t, controllerstest.Options{})
		set := create(t, api, setKind(), &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "set"}})
		orphans := []*corev1.Pod{create(t, api, pods.Kind(), podNamed("orphan", "a"))}
		tt.change(t, api, set)
		owner := ownership.Owner{Object: set, Kind: setKind(), Selector: labels.Everything()}
		if _, err := ownership.Claim(t.Context(), api, owner, pods.Kind(), orphans); err == nil || err.Error() != tt.want {
			t.Errorf("%s: %v, want %s", name, err, tt.want)
		}
	}
}

// TestAdoptsNoOther: neither what is being deleted nor what is elsewhere is adopted, and nothing for an owner that the server knows to
// be deleted. The server is asked about the owner once.
func TestAdoptsNoOther(t *testing.T) {
	reads := 0
	api := controllerstest.Start(t, controllerstest.Options{Before: func(a faults.Request) error {
		if a.Verb == faults.Get {
			reads++
		}
		return nil
	}})
	held := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "set", Finalizers: []string{"example.com/hold"}}}
	set := create(t, api, setKind(), held)
	ending := podNamed("ending", "a")
	ending.Finalizers = []string{"example.com/hold"}
	create(t, api, pods.Kind(), ending)
	if err := api.Delete(t.Context(), pods.Kind().Target("ns", "ending"), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	out, err := api.Get(t.Context(), pods.Kind().Target("ns", "ending"))
	if err != nil {
		t.Fatal(err)
	}
	ending = out.(*corev1.Pod)
	if out, err = api.Create(t.Context(), pods.Kind().Target("other", ""), controllerstest.Complete(podNamed("elsewhere", "a")), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	elsewhere := out.(*corev1.Pod)
	owner := ownership.Owner{Object: set, Kind: setKind(), Selector: labels.Everything()}
	api.Reset()
	reads = 0
	if claimed, err := ownership.Claim(t.Context(), api, owner, pods.Kind(), []*corev1.Pod{ending, elsewhere}); err != nil || len(claimed) != 0 {
		t.Errorf("claimed %v, %v", claimed, err)
	}
	if actions := api.Writes(); len(actions) != 0 || reads != 0 {
		t.Errorf("did %v, asked %d times", actions, reads)
	}
	one, two := create(t, api, pods.Kind(), podNamed("one", "a")), create(t, api, pods.Kind(), podNamed("two", "a"))
	if err := api.Delete(t.Context(), setKind().Target("ns", "set"), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	api.Reset()
	// set, as the cache has it, is not being deleted.
	claimed, err := ownership.Claim(t.Context(), api, owner, pods.Kind(), []*corev1.Pod{one, two})
	if err == nil || strings.Count(err.Error(), "ns/set has just been deleted at ") != 2 || len(claimed) != 0 || reads != 1 || len(api.Writes()) != 0 {
		t.Errorf("claimed %v, %v, asked %d times, did %v", claimed, err, reads, api.Writes())
	}
}

// TestReplacedDependents: a dependent of the same name that the cache does not know yet is neither adopted nor released.
func TestReplacedDependents(t *testing.T) {
	api := controllerstest.Start(t, controllerstest.Options{})
	set := create(t, api, setKind(), &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "set"}})
	ref := *metav1.NewControllerRef(set, setKind().GroupVersionKind)
	orphan, ours := create(t, api, pods.Kind(), podNamed("orphan", "a")), podNamed("ours", "b")
	ours.OwnerReferences = []metav1.OwnerReference{ref}
	ours = create(t, api, pods.Kind(), ours)
	orphan.UID, ours.UID = "before", "before"
	owner := ownership.Owner{Object: set, Kind: setKind(), Selector: labels.SelectorFromSet(labels.Set{"app": "a"})}
	if claimed, err := ownership.Claim(t.Context(), api, owner, pods.Kind(), []*corev1.Pod{ours}); err != nil || len(claimed) != 0 {
		t.Errorf("released with %v, %v", claimed, err)
	}
	if claimed, err := ownership.Claim(t.Context(), api, owner, pods.Kind(), []*corev1.Pod{orphan}); err == nil || !strings.Contains(err.Error(), `Pod "orphan" is invalid: metadata.uid`) || len(claimed) != 0 {
		t.Errorf("claimed %v, %v", claimed, err)
	}
	for name, owners := range map[string]int{"orphan": 0, "ours": 1} {
		got, err := api.Get(t.Context(), pods.Kind().Target("ns", name))
		if err != nil || len(got.(*corev1.Pod).OwnerReferences) != owners {
			t.Errorf("%s is %v, %v", name, got, err)
		}
	}
}

func TestIndexAndResolve(t *testing.T) {
	api := controllerstest.Start(t, controllerstest.Options{})
	set := create(t, api, setKind(), &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "set"}})
	owned := podNamed("owned", "a")
	owned.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, setKind().GroupVersionKind)}
	owned = create(t, api, pods.Kind(), owned)
	create(t, api, pods.Kind(), podNamed("orphan", "a"))
	in := informer.New(controllerstest.Source[*corev1.Pod](api, controllerstest.Pods()), informer.Options{})
	sets := informer.New(controllerstest.Source[*appsv1.ReplicaSet](api, setKind().Target("", "").Resource), informer.Options{})
	ownership.AddIndex(in)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 2)
	go func() { done <- in.Run(ctx) }()
	go func() { done <- sets.Run(ctx) }()
	for _, cache := range []interface{ WaitSynced(context.Context) error }{in, sets} {
		if err := cache.WaitSynced(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if got := ownership.ByOwner(in, "ReplicaSet", set); len(got) != 1 || got[0].Name != "owned" {
		t.Errorf("by owner: %v", got)
	}
	if got := ownership.ByOwner(in, "Job", set); len(got) != 0 {
		t.Errorf("by owner of another kind: %v", got)
	}
	if got := ownership.Orphans(in, "ns"); len(got) != 1 || got[0].Name != "orphan" {
		t.Errorf("orphans: %v", got)
	}
	ref := metav1.GetControllerOf(owned)
	if got, ok := ownership.Resolve(sets, "ReplicaSet", "ns", ref); !ok || got.UID != set.UID {
		t.Errorf("resolved %v, %v", got, ok)
	}
	other := *ref
	other.UID = types.UID("other")
	for name, bad := range map[string]*metav1.OwnerReference{"nil": nil, "other uid": &other} {
		if _, ok := ownership.Resolve(sets, "ReplicaSet", "ns", bad); ok {
			t.Errorf("%s resolved", name)
		}
	}
	if _, ok := ownership.Resolve(sets, "Job", "ns", ref); ok {
		t.Error("another kind resolved")
	}
	cancel()
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	var _ client.Target = setKind().Target("ns", "set")
}

func TestSameController(t *testing.T) {
	yes := true
	owned := func(change func(*metav1.OwnerReference)) *corev1.Pod {
		ref := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "set", UID: "u", Controller: &yes}
		change(&ref)
		pod := podNamed("p", "a")
		pod.OwnerReferences = []metav1.OwnerReference{ref}
		return pod
	}
	same := func(*metav1.OwnerReference) {}
	for name, tt := range map[string]struct {
		a, b *corev1.Pod
		want bool
	}{
		"none":              {podNamed("a", ""), podNamed("b", ""), true},
		"one has":           {owned(same), podNamed("b", ""), false},
		"the other has":     {podNamed("a", ""), owned(same), false},
		"same":              {owned(same), owned(same), true},
		"how it is deleted": {owned(same), owned(func(r *metav1.OwnerReference) { r.BlockOwnerDeletion = &yes }), true},
		"other uid":         {owned(same), owned(func(r *metav1.OwnerReference) { r.UID = "v" }), false},
		"other name":        {owned(same), owned(func(r *metav1.OwnerReference) { r.Name = "other" }), false},
		"other kind":        {owned(same), owned(func(r *metav1.OwnerReference) { r.Kind = "Job" }), false},
		"other version":     {owned(same), owned(func(r *metav1.OwnerReference) { r.APIVersion = "apps/v2" }), false},
		"owned, no more":    {owned(same), owned(func(r *metav1.OwnerReference) { r.Controller = nil }), false},
	} {
		if got := ownership.SameController(tt.a, tt.b); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// answers is a server that answers every read and patch alike.
type answers struct {
	obj runtime.Object
	err error
}

func (a answers) Get(context.Context, client.Target) (runtime.Object, error) { return a.obj, a.err }

func (a answers) Patch(context.Context, client.Target, client.Patch, metav1.PatchOptions) (runtime.Object, error) {
	return a.obj, a.err
}

func TestAlive(t *testing.T) {
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "set", UID: "u"}}
	with := func(uid types.UID, at *metav1.Time) *appsv1.ReplicaSet {
		return &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{UID: uid, DeletionTimestamp: at}}
	}
	down := errors.New("down")
	for name, tt := range map[string]struct {
		server answers
		want   bool
		err    string
	}{
		"there":          {answers{obj: with("u", nil)}, true, ""},
		"replaced":       {answers{obj: with("v", nil)}, false, ""},
		"being deleted":  {answers{obj: with("u", &metav1.Time{})}, false, ""},
		"gone":           {answers{err: apierrors.NewNotFound(appsv1.Resource("replicasets"), "set")}, false, ""},
		"no answer":      {answers{err: down}, false, "down"},
		"another answer": {answers{obj: &metav1.Status{}}, false, "server answered with a *v1.Status"},
	} {
		got, err := ownership.Alive(t.Context(), tt.server, setKind(), set)
		if got != tt.want || (err == nil) != (tt.err == "") || err != nil && err.Error() != tt.err {
			t.Errorf("%s: %t, %v", name, got, err)
		}
	}
}

// TestRelease: what the owner selects no longer is released; that it is gone, or is owned no more, is as good.
func TestRelease(t *testing.T) {
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "set", UID: "u"}}
	ours := podNamed("ours", "b")
	ours.Namespace, ours.OwnerReferences = "ns", []metav1.OwnerReference{*metav1.NewControllerRef(set, setKind().GroupVersionKind)}
	for name, tt := range map[string]struct {
		server answers
		wrote  int
		fails  bool
	}{
		"released":         {answers{obj: ours}, 1, false},
		"no object, but":   {answers{obj: &metav1.Status{}}, 0, false},
		"gone":             {answers{err: apierrors.NewNotFound(corev1.Resource("pods"), "ours")}, 0, false},
		"no reference":     {answers{err: apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), "ours", nil)}, 0, false},
		"somebody's write": {answers{err: apierrors.NewConflict(corev1.Resource("pods"), "ours", errors.New("changed"))}, 0, true},
		"no answer":        {answers{err: errors.New("down")}, 0, true},
	} {
		wrote := 0
		owner := ownership.Owner{Object: set, Kind: setKind(), Selector: labels.SelectorFromSet(labels.Set{"app": "a"}), Wrote: func(metav1.Object) { wrote++ }}
		claimed, err := ownership.Claim(t.Context(), tt.server, owner, pods.Kind(), []*corev1.Pod{ours})
		if len(claimed) != 0 || (err != nil) != tt.fails || wrote != tt.wrote {
			t.Errorf("%s: claimed %v, %v; told of %d writes", name, claimed, err, wrote)
		}
		owner.Wrote = nil // nobody need be told
		if _, err := ownership.Claim(t.Context(), tt.server, owner, pods.Kind(), []*corev1.Pod{ours}); (err != nil) != tt.fails {
			t.Errorf("%s, and nobody told: %v", name, err)
		}
	}
}

// TestRecheckAnswer: an answer that is no object is no leave to adopt.
func TestRecheckAnswer(t *testing.T) {
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "set", UID: "u"}}
	orphan := podNamed("orphan", "a")
	orphan.Namespace = "ns"
	owner := ownership.Owner{Object: set, Kind: setKind(), Selector: labels.Everything()}
	claimed, err := ownership.Claim(t.Context(), answers{obj: &metav1.Status{}}, owner, pods.Kind(), []*corev1.Pod{orphan})
	if err == nil || !strings.HasSuffix(err.Error(), "can't recheck DeletionTimestamp: server answered with a *v1.Status") || len(claimed) != 0 {
		t.Errorf("%v, %v", claimed, err)
	}
}

// TestFinalizers: the owner's finalizers come and go with its reference; others stay.
func TestFinalizers(t *testing.T) {
	api := controllerstest.Start(t, controllerstest.Options{})
	set := create(t, api, setKind(), &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "set"}})
	orphan := podNamed("orphan", "a")
	orphan.Finalizers = []string{"example.com/own"}
	owner := ownership.Owner{
		Object: set, Kind: setKind(), Selector: labels.SelectorFromSet(labels.Set{"app": "a"}), Finalizers: []string{"example.com/track"},
	}
	now := func(pod *corev1.Pod, want string) *corev1.Pod {
		t.Helper()
		if _, err := ownership.Claim(t.Context(), api, owner, pods.Kind(), []*corev1.Pod{pod}); err != nil {
			t.Fatal(err)
		}
		got, err := api.Get(t.Context(), pods.Kind().Target("ns", "orphan"))
		if err != nil {
			t.Fatal(err)
		}
		if all := strings.Join(slices.Sorted(slices.Values(got.(*corev1.Pod).Finalizers)), " "); all != want {
			t.Errorf("finalizers %s, want %s", all, want)
		}
		return got.(*corev1.Pod)
	}
	pod := now(create(t, api, pods.Kind(), orphan), "example.com/own example.com/track")
	owner.Selector = labels.SelectorFromSet(labels.Set{"app": "b"})
	now(pod, "example.com/own")
}
