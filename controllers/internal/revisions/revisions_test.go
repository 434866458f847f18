package revisions_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/internal/revisions"
	"github.com/keelson-dev/keelson/controllers/ownership"
	"github.com/keelson-dev/keelson/informer"
)

func kind() ownership.Kind {
	return ownership.Kind{GroupVersionKind: appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), Resource: "replicasets"}
}

func template(image string) *corev1.PodTemplateSpec {
	return &corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: image}}},
	}
}

func revision(name string, number int64) *appsv1.ControllerRevision {
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", Labels: map[string]string{"app": "web"}},
		Revision:   number, Data: runtime.RawExtension{Raw: []byte(`{"of":"` + name + `"}`)},
	}
}

func names(all []*appsv1.ControllerRevision) string {
	var out []string
	for _, r := range all {
		out = append(out, r.Name)
	}
	return strings.Join(out, " ")
}

// TestData: revisions are interchangeable with those that upstream's controllers have stored.
func TestData(t *testing.T) {
	data, err := revisions.Data(template("i"))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"image":"i","name":"c","resources":{}}]}}}}`
	if string(data) != want {
		t.Errorf("got  %s\nwant %s", data, want)
	}
}

// TestHash: the values are upstream's.
func TestHash(t *testing.T) {
	for _, tt := range []struct {
		data       string
		collisions int32
		want       string
	}{
		{`{"a":1}`, 0, "d55c4ff5f"}, {`{"a":1}`, 1, "d55c4ff5d"}, {``, 0, "d8bfb7bc"},
	} {
		if got := revisions.Hash([]byte(tt.data), tt.collisions); got != tt.want {
			t.Errorf("hash of %q with %d collisions: %s, want %s", tt.data, tt.collisions, got, tt.want)
		}
	}
	if got := revisions.Name("web", "abc"); got != "web-abc" {
		t.Error(got)
	}
	if got := revisions.Name(strings.Repeat("x", 300), "abc"); got != strings.Repeat("x", 223)+"-abc" {
		t.Error(got)
	}
}

func TestSort(t *testing.T) {
	old, young := revision("z", 2), revision("a", 2)
	old.CreationTimestamp, young.CreationTimestamp = metav1.Unix(1, 0), metav1.Unix(2, 0)
	same := revision("b", 2)
	same.CreationTimestamp = young.CreationTimestamp
	all := []*appsv1.ControllerRevision{revision("last", 3), same, young, old, revision("first", 1)}
	if revisions.Sort(all); names(all) != "first z a b last" {
		t.Errorf("sorted %s", names(all))
	}
	if n := revisions.Next(all); n != 4 {
		t.Errorf("next %d", n)
	}
	if n := revisions.Next(nil); n != 1 {
		t.Errorf("first %d", n)
	}
	if equal := revisions.FindEqual(all, []byte(`{"of":"a"}`)); names(equal) != "a" {
		t.Errorf("equal %s", names(equal))
	}
}

func TestTruncate(t *testing.T) {
	all := []*appsv1.ControllerRevision{revision("a", 1), revision("b", 2), revision("c", 3), revision("d", 4)}
	used := func(r *appsv1.ControllerRevision) bool { return r.Name == "b" }
	for n, want := range map[int]string{-1: "", 0: "", 1: "a", 2: "a c", 9: "a c d"} {
		if got := names(revisions.Oldest(all, n, used)); got != want {
			t.Errorf("the oldest %d: %q, want %q", n, got, want)
		}
	}
	for limit, want := range map[int]string{-1: "", 0: "a c d", 1: "a c", 2: "a", 3: "", 9: ""} {
		if got := names(revisions.Excess(all, limit, used)); got != want {
			t.Errorf("more than %d: %q, want %q", limit, got, want)
		}
	}
	if names(all) != "a b c d" {
		t.Errorf("modified to %s", names(all))
	}
}

// TestList: the revisions of an owner are those it controls and those that nobody does, if it selects them.
func TestList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := controllerstest.Start(t, controllerstest.Options{})
		in := informer.New(controllerstest.Source[*appsv1.ControllerRevision](api, appsv1.SchemeGroupVersion.WithResource("controllerrevisions")), informer.Options{})
		ownership.AddIndex(in)
		controllerstest.Go(t, in)
		web := controllerstest.Add(t, api, &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "ns"}})
		other := controllerstest.Add(t, api, &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "other", Namespace: "ns"}})
		for i, owner := range []*appsv1.ReplicaSet{web, nil, other, web, nil} {
			r := revision(fmt.Sprintf("r%d", i), int64(9-i))
			if owner != nil {
				r.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, kind().GroupVersionKind)}
			}
			if i > 2 {
				r.Labels = nil
			}
			controllerstest.Add(t, api, r)
		}
		elsewhere := revision("r0", 1)
		elsewhere.Namespace = "elsewhere"
		controllerstest.Add(t, api, elsewhere)
		synctest.Wait()
		owner := ownership.Owner{Object: web, Kind: kind(), Selector: labels.SelectorFromSet(labels.Set{"app": "web"})}
		if got := names(revisions.List(in, owner)); got != "r1 r0" {
			t.Errorf("revisions %s", got)
		}
	})
}

func TestNew(t *testing.T) {
	web := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "ns", UID: "u", Annotations: map[string]string{"k": "v"}}}
	got := revisions.New(web, kind(), template("i"), []byte(`{}`), 7)
	want := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Labels: map[string]string{"app": "web"}, Annotations: map[string]string{"k": "v"},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "u", Controller: new(true), BlockOwnerDeletion: new(true),
			}},
		},
		Data: runtime.RawExtension{Raw: []byte(`{}`)}, Revision: 7,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// TestCreate: a name that another revision has is evaded, one of a revision with the same data is not.
func TestCreate(t *testing.T) {
	api := controllerstest.Start(t, controllerstest.Options{})
	r := revision("", 1)
	taken := revision(revisions.Name("web", revisions.Hash(r.Data.Raw, 0)), 5)
	controllerstest.Add(t, api, taken)
	created, collisions, err := revisions.Create(t.Context(), api, "web", r, 0)
	if err != nil || collisions != 1 || created.Name != revisions.Name("web", revisions.Hash(r.Data.Raw, 1)) {
		t.Fatalf("%v, %d collisions, %v", created, collisions, err)
	}
	if got := created.Labels[revisions.HashLabel]; got != revisions.Hash(r.Data.Raw, 0) || r.Labels[revisions.HashLabel] != "" {
		t.Errorf("hash in label %s; in the argument's %v", got, r.Labels)
	}
	again, collisions, err := revisions.Create(t.Context(), api, "web", r, 1)
	if err != nil || collisions != 1 || again.UID != created.UID {
		t.Errorf("again: %v, %d collisions, %v", again, collisions, err)
	}
	r.Labels = nil
	r.Data.Raw = []byte(`{"other":1}`)
	if created, collisions, err = revisions.Create(t.Context(), api, "web", r, 1); err != nil || collisions != 1 || created.Labels[revisions.HashLabel] == "" {
		t.Errorf("without labels: %v, %d collisions, %v", created, collisions, err)
	}
	down := errors.New("down")
	api.Inject(faults.Fault{Verb: faults.Get, Err: down})
	if _, _, err := revisions.Create(t.Context(), api, "web", r, 1); !errors.Is(err, down) {
		t.Errorf("failed with %v", err)
	}
	api.Inject(faults.Fault{Verb: faults.Create, Err: down})
	if _, _, err := revisions.Create(t.Context(), api, "web", r, 1); !errors.Is(err, down) {
		t.Errorf("failed with %v", err)
	}
}

func TestSetNumber(t *testing.T) {
	api := controllerstest.Start(t, controllerstest.Options{})
	r := controllerstest.Add(t, api, revision("web-a", 1))
	two, err := revisions.SetNumber(t.Context(), api, r, 2)
	if err != nil || two.Revision != 2 || r.Revision != 1 {
		t.Fatalf("%v, %v; cached %d", two, err, r.Revision)
	}
	if same, err := revisions.SetNumber(t.Context(), api, two, 2); err != nil || same != two || len(api.Writes()) != 1 {
		t.Errorf("%v, %v, writes %v", same, err, api.Writes())
	}
	if three, err := revisions.SetNumber(t.Context(), api, r, 3); err != nil || three.Revision != 3 {
		t.Errorf("from a stale cache: %v, %v", three, err)
	}
	api.Inject(faults.Fault{Verb: faults.Update, Err: apierrors.NewConflict(appsv1.SchemeGroupVersion.WithResource("controllerrevisions").GroupResource(), "web-a", errors.New("changed")), Times: 2})
	if _, err := revisions.SetNumber(t.Context(), api, r, 4); !apierrors.IsConflict(err) {
		t.Errorf("changed twice: %v", err)
	}
	down := errors.New("down")
	api.Inject(faults.Fault{Verb: faults.Get, Err: down})
	if _, err := revisions.SetNumber(t.Context(), api, r, 4); !errors.Is(err, down) {
		t.Errorf("failed with %v", err)
	}
	api.Inject(faults.Fault{Verb: faults.Update, Err: down})
	if _, err := revisions.SetNumber(t.Context(), api, r, 4); !errors.Is(err, down) {
		t.Errorf("failed with %v", err)
	}
}

func TestDelete(t *testing.T) {
	api := controllerstest.Start(t, controllerstest.Options{})
	a, b, c := controllerstest.Add(t, api, revision("a", 1)), revision("gone", 2), controllerstest.Add(t, api, revision("c", 3))
	down := errors.New("down")
	api.Inject(faults.Fault{Verb: faults.Delete, Name: "c", Err: down, Delay: time.Millisecond})
	if err := revisions.Delete(t.Context(), api, []*appsv1.ControllerRevision{a, b, c}); !errors.Is(err, down) {
		t.Errorf("failed with %v", err)
	}
	if err := revisions.Delete(t.Context(), api, []*appsv1.ControllerRevision{a, b, c}); err != nil {
		t.Error(err)
	}
	left, err := client.As[*appsv1.ControllerRevisionList](api.List(t.Context(), revisions.Kind().Target("ns", ""), metav1.ListOptions{}))
	if err != nil || len(left.Items) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
}
