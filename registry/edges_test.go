package registry_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/memory"
)

// TestDeleteWithoutWarning: a kind that has nothing to say about orphans says nothing.
func TestDeleteWithoutWarning(t *testing.T) {
	res := open(t, memory.New(memory.Options{}), registry.Options{})
	create(t, res, "ns", "a", nil)
	ctx := registry.WithWarnings(t.Context(), func(text string) { t.Errorf("warned: %q", text) })
	if _, gone, err := res.Delete(ctx, "ns", "a", registry.DeleteOptions{}); err != nil || !gone {
		t.Errorf("gone %t, %v", gone, err)
	}
}

// TestNamespaceOfClusterScoped: objects of the cluster have no field for the namespace, whatever their kind says.
func TestNamespaceOfClusterScoped(t *testing.T) {
	kind := namespaces(registry.Rules[*corev1.Namespace]{})
	kind.Fields = func(registry.Object) fields.Set {
		return fields.Set{"metadata.namespace": "x", "metadata.name": "x", "status.phase": "Active"}
	}
	res, _ := openKinds(t, memory.New(memory.Options{}), kind).Resource(namespacesResource)
	create(t, res, "", "a", nil)
	for text, want := range map[string]int{"metadata.namespace=x": 0, "metadata.namespace=": 1, "status.phase=Active": 1} {
		l, err := res.List(t.Context(), registry.ListOptions{Selection: registry.Selection{Fields: fieldSelector(t, text)}})
		if err != nil || len(l.Items) != want {
			t.Errorf("%s: %v, %v", text, listed(l), err)
		}
	}
}

// TestDropFailed: an object that will not be completed is deleted unless somebody else has done so, or replaced it.
func TestDropFailed(t *testing.T) {
	s := openStage(t)
	failed := func(name string) *registry.Item {
		t.Helper()
		if err := s.make(name, map[string]string{"wait": "1", "why": "never"}, false); err != nil {
			t.Fatal(err)
		}
		item, err := s.GetPending(t.Context(), "a", name, "")
		if err != nil {
			t.Fatal(err)
		}
		return item
	}
	drop := func(item *registry.Item) {
		t.Helper()
		if err := s.DropFailed(t.Context(), item); err != nil {
			t.Error(err)
		}
	}
	remove := func(name string) {
		t.Helper()
		if _, _, err := s.Delete(t.Context(), "a", name, registry.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	drop(failed("there"))
	gone := failed("gone")
	remove("gone")
	drop(gone)
	replaced := failed("replaced")
	remove("replaced")
	failed("replaced")
	drop(replaced)
	if got := s.names(registry.ListOptions{Selection: registry.Selection{Pending: true}}); got != "replaced" {
		t.Errorf("there are %s", got)
	}
}

// TestDropFailedFails: a store that fails to delete is told of.
func TestDropFailedFails(t *testing.T) {
	broken := errors.New("broken")
	res := open(t, undeletable{memory.New(memory.Options{}), broken}, registry.Options{Initialization: stages()})
	s := stage{t, res}
	if err := s.make("x", map[string]string{"wait": "1", "why": "never"}, false); err != nil {
		t.Fatal(err)
	}
	item, err := s.GetPending(t.Context(), "a", "x", "")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.DropFailed(t.Context(), item); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

// TestInstallKeepsOthers: what is installed, replaced or removed leaves the other kinds as they are.
func TestInstallKeepsOthers(t *testing.T) {
	reg := openKinds(t, memory.New(memory.Options{}), sorts()...)
	check := func(when string, want ...schema.GroupResource) {
		t.Helper()
		var have []schema.GroupResource
		for n, res := range reg.Resources() {
			have = append(have, res.GroupResource())
			found, ok := reg.Resource(res.GroupResource())
			version, served := reg.Find(res.GroupVersion.WithResource(res.Plural))
			if !ok || found != res || !served || version != res || reg.Kinds()[n] != &res.Kind {
				t.Errorf("%s, %s is not served as such", when, res.GroupResource())
			}
		}
		if !slices.Equal(have, want) {
			t.Errorf("%s, there are %v", when, have)
		}
		for _, gr := range []schema.GroupResource{configMapsResource, namespacesResource, statusesResource, reviewsResource, unknownResource} {
			if _, ok := reg.Resource(gr); ok != slices.Contains(want, gr) {
				t.Errorf("%s, %s is served: %t", when, gr, ok)
			}
		}
	}
	check("at first", configMapsResource, namespacesResource, statusesResource, reviewsResource)
	unknown := configMaps()
	unknown.GroupVersion, unknown.Names = schema.GroupVersion{Group: "x.example", Version: "v1"}, registry.Names{Kind: "Unknown", Plural: "unknowns", Singular: "unknown"}
	unknown.Prefix = "x.example/unknowns"
	install(t, reg, unknown)
	check("with one more", configMapsResource, namespacesResource, statusesResource, reviewsResource, unknownResource)
	install(t, reg, namespaces(registry.Rules[*corev1.Namespace]{}))
	check("with another", configMapsResource, namespacesResource, statusesResource, reviewsResource, unknownResource)
	if !reg.Remove(statusesResource) || reg.Remove(statusesResource) {
		t.Error("a kind is removed once")
	}
	check("without one", configMapsResource, namespacesResource, reviewsResource, unknownResource)
	other := configMaps()
	other.GroupVersion, other.Names = schema.GroupVersion{Group: "y.example", Version: "v1"}, registry.Names{Kind: "Other", Plural: "others", Singular: "other"}
	other.Prefix = "x.example/unknowns"
	if _, err := reg.Install(t.Context(), other); err == nil || !strings.Contains(err.Error(), `share the storage prefix "x.example/unknowns"`) {
		t.Errorf("two kinds with one prefix: %v", err)
	}
	check("after a refusal", configMapsResource, namespacesResource, reviewsResource, unknownResource)
}

// forgetting has no history, and takes note of the revisions that are listed.
type forgetting struct {
	storage.Store
	listed *[]int64
}

func (f forgetting) List(ctx context.Context, prefix string, o storage.ListOptions) (storage.Page, error) {
	*f.listed = append(*f.listed, o.Revision)
	return f.Store.List(ctx, prefix, o)
}

// TestStoreWithoutHistory: a store that keeps no past states is asked for its newest.
func TestStoreWithoutHistory(t *testing.T) {
	inner := memory.New(memory.Options{})
	create(t, open(t, inner, registry.Options{}), "ns", "a", nil)
	var revisions []int64
	res := open(t, forgetting{inner, &revisions}, registry.Options{})
	if res.Len() != 1 || !slices.Equal(revisions, []int64{0}) {
		t.Errorf("%d objects, listed at %v", res.Len(), revisions)
	}
}

// TestReadableAtOnce: one record that can be read again is a reason to try all.
func TestReadableAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := memory.New(memory.Options{})
		seeing := open(t, inner, registry.Options{})
		const n = 100
		for range n {
			if _, err := seeing.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", GenerateName: "blind-"}}, registry.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		store := &blind{Store: inner}
		res := open(t, store, registry.Options{})
		store.see()
		time.Sleep(6 * time.Second)
		synctest.Wait()
		if res.Len() != n {
			t.Errorf("%d can be read", res.Len())
		}
	})
}

// unwritable fails to update, if it has an error.
type unwritable struct {
	*blind
	err error
}

func (u unwritable) Update(ctx context.Context, key string, value []byte, expected int64) (int64, error) {
	if u.err != nil {
		return 0, u.err
	}
	return u.blind.Update(ctx, key, value, expected)
}

// TestRereadIsLogged: a record that can be read again but not be written is logged, unless somebody else has written it.
func TestRereadIsLogged(t *testing.T) {
	for err, logged := range map[error]bool{nil: false, storage.ErrConflict: false, storage.ErrNotFound: false, errors.New("broken"): true} {
		synctest.Test(t, func(t *testing.T) {
			inner := memory.New(memory.Options{})
			create(t, open(t, inner, registry.Options{}), "ns", "blind", nil)
			store := &blind{Store: inner}
			var log bytes.Buffer
			res := open(t, unwritable{store, err}, registry.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			log.Reset()
			store.see()
			time.Sleep(6 * time.Second)
			synctest.Wait()
			const want = `level=WARN msg="cannot rewrite an object that can be read again" key=/registry/configmaps/ns/blind error=broken`
			if strings.Contains(log.String(), want) != logged || !logged && log.Len() > 0 {
				t.Errorf("%v: logged %q", err, log.String())
			}
			if readable := err == nil; (res.Len() == 1) != readable || (len(res.Unreadable("")) == 0) != readable {
				t.Errorf("%v: %d can be read, %v cannot", err, res.Len(), res.Unreadable(""))
			}
		})
	}
}

// repeating gives the same suffix twice before it gives another.
type repeating struct {
	registry.Identifiers
	asked *int
}

func (r repeating) Suffix(string, string, string) string {
	*r.asked++
	return []string{"one", "one", "two"}[*r.asked-1]
}

// TestNameIsTriedAgain: an object whose generated name was taken is prepared from what the client has sent.
func TestNameIsTriedAgain(t *testing.T) {
	var asked int
	kind := ruled(registry.Rules[*corev1.ConfigMap]{PrepareCreate: func(_ context.Context, c *corev1.ConfigMap) {
		c.Finalizers = append(c.Finalizers, "example.com/"+c.Name)
	}})
	res := openKind(t, memory.New(memory.Options{}), kind, registry.Options{Identifiers: repeating{registry.Seeded(1), &asked}})
	seen := map[types.UID]bool{}
	for _, want := range []string{"a-one", "a-two"} {
		item, err := res.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", GenerateName: "a-"}}, registry.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		obj := item.Object
		if obj.GetName() != want || !slices.Equal(obj.GetFinalizers(), []string{"example.com/" + want}) || seen[obj.GetUID()] {
			t.Errorf("made %s with %v", obj.GetName(), obj.GetFinalizers())
		}
		seen[obj.GetUID()] = true
	}
}

// TestSelfLinkIsDropped: what others have stored with a self-link loses it when its deletion begins.
func TestSelfLinkIsDropped(t *testing.T) {
	store := memory.New(memory.Options{})
	res := open(t, store, registry.Options{})
	const stored = `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"namespace":"ns","name":"a","uid":"1","selfLink":"/x","finalizers":["example.com/x"]}}`
	if _, err := store.Create(t.Context(), "/registry/configmaps/ns/a", []byte(stored)); err != nil {
		t.Fatal(err)
	}
	item, gone, err := res.Delete(t.Context(), "ns", "a", registry.DeleteOptions{})
	if err != nil || gone || item.Object.GetSelfLink() != "" || item.Object.GetDeletionTimestamp() == nil {
		t.Errorf("deleted as %v, gone %t, %v", item, gone, err)
	}
}

// probing lets a test look at the fields that a selector is given.
type probing struct {
	fields.Selector
	look func(fields.Fields)
}

func (p probing) Matches(f fields.Fields) bool { p.look(f); return p.Selector.Matches(f) }

// TestSelectableFields: a selector of a client's own finds the fields of its kind, and no others.
func TestSelectableFields(t *testing.T) {
	res := openKind(t, memory.New(memory.Options{}), colors(registry.Rules[*corev1.ConfigMap]{}).Kind(), registry.Options{})
	paint(t, res, "a", "one", "red", "")
	looked := false
	s := registry.Selection{Fields: probing{fieldSelector(t, "data.color!=blue"), func(f fields.Fields) {
		looked = true
		for field, want := range map[string]string{"metadata.name": "one", "metadata.namespace": "a", "data.color": "red", "data.size": ""} {
			if !f.Has(field) || f.Get(field) != want {
				t.Errorf("%s: there %t, %q", field, f.Has(field), f.Get(field))
			}
		}
		if f.Has("data.other") || f.Get("data.other") != "" {
			t.Error("there is a field that the kind does not have")
		}
	}}}
	if l, err := res.List(t.Context(), registry.ListOptions{Selection: s}); err != nil || len(l.Items) != 1 || !looked {
		t.Errorf("listed %v, %v, looked at %t", listed(l), err, looked)
	}
}

// TestSelectorOfNothing: a selector that selects nothing selects nothing, whatever else is asked for.
func TestSelectorOfNothing(t *testing.T) {
	res := openKind(t, memory.New(memory.Options{}), colors(registry.Rules[*corev1.ConfigMap]{}).Kind(), registry.Options{})
	paint(t, res, "a", "one", "red", "")
	for _, text := range []string{"", "data.color=red", "data.color!=blue", "metadata.name=one"} {
		s := registry.Selection{Labels: labels.Nothing(), Fields: fieldSelector(t, text)}
		if l, err := res.List(t.Context(), registry.ListOptions{Selection: s}); err != nil || len(l.Items) != 0 {
			t.Errorf("%q: %v, %v", text, listed(l), err)
		}
	}
}

// TestSelectionWithoutFields: objects of a kind without selectable fields have none.
func TestSelectionWithoutFields(t *testing.T) {
	res := open(t, memory.New(memory.Options{}), registry.Options{})
	create(t, res, "a", "one", nil)
	for text, want := range map[string]int{"data.color=red": 0, "data.color=": 1, "data.color!=red": 1} {
		if l, err := res.List(t.Context(), registry.ListOptions{Selection: registry.Selection{Fields: fieldSelector(t, text)}}); err != nil || len(l.Items) != want {
			t.Errorf("%s: %v, %v", text, listed(l), err)
		}
	}
}

// TestPastOfPending: a list at a past revision hides what was pending then, and says how many objects follow if nothing was.
func TestPastOfPending(t *testing.T) {
	s := openStage(t)
	for _, name := range []string{"a", "b"} {
		if err := s.make(name, nil, true); err != nil {
			t.Fatal(err)
		}
	}
	before := s.revision()
	s.begin("x")
	during := s.revision()
	s.set("x", nil)
	after := s.revision()
	at := func(revision int64) registry.ListOptions {
		return registry.ListOptions{ResourceVersion: strconv.FormatInt(revision, 10), Match: metav1.ResourceVersionMatchExact}
	}
	for revision, want := range map[int64]string{before: "a b", during: "a b", after: "a b x"} {
		if got := s.names(at(revision)); got != want {
			t.Errorf("at %d there are %s, want %s", revision, got, want)
		}
	}
	for revision, want := range map[int64]int64{before: 1, during: -1, after: 2} {
		o := at(revision)
		o.Limit = 1
		l, err := s.List(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		remaining := int64(-1)
		if l.Remaining != nil {
			remaining = *l.Remaining
		}
		if remaining != want {
			t.Errorf("at %d, %d follow, want %d", revision, remaining, want)
		}
	}
}

// TestEncodingFails: an encoding that fails is told of, and tried again.
func TestEncodingFails(t *testing.T) {
	res := open(t, memory.New(memory.Options{}), registry.Options{})
	create(t, res, "a", "one", nil)
	item, err := res.Get(t.Context(), "a", "one", "")
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	for _, want := range []error{broken, broken, nil} {
		b, err := item.Encoded(registry.Form{Media: "test"}, func(registry.Object) ([]byte, error) { return []byte("x"), want })
		if !errors.Is(err, want) || want == nil && string(b) != "x" {
			t.Errorf("%q, %v", b, err)
		}
	}
}

// TestEncodingsThatJustFit: encodings that take all of the memory that they may take are kept.
func TestEncodingsThatJustFit(t *testing.T) {
	res := open(t, memory.New(memory.Options{}), registry.Options{EncodingBytes: 600})
	builds := 0
	for range 3 {
		for _, name := range []string{"one", "two"} {
			if builds < 2 {
				create(t, res, "a", name, nil)
			}
			item, err := res.Get(t.Context(), "a", name, "")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := item.Encoded(registry.Form{Media: "test"}, func(registry.Object) ([]byte, error) { builds++; return make([]byte, 300), nil }); err != nil {
				t.Fatal(err)
			}
		}
	}
	if builds != 2 {
		t.Errorf("encoded %d times", builds)
	}
}
