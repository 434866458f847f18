package registry_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/storage/memory"
)

var (
	configMapsResource = schema.GroupResource{Resource: "configmaps"}
	namespacesResource = schema.GroupResource{Resource: "namespaces"}
	statusesResource   = schema.GroupResource{Resource: "componentstatuses"}
	reviewsResource    = schema.GroupResource{Group: "authorization.k8s.io", Resource: "subjectaccessreviews"}
	unknownResource    = schema.GroupResource{Group: "x.example", Resource: "unknowns"}
)

// colors are ConfigMaps that can be selected by their color and size.
func colors(rules registry.Rules[*corev1.ConfigMap]) registry.Definition[*corev1.ConfigMap] {
	return registry.Definition[*corev1.ConfigMap]{
		Names:        registry.Names{Kind: "ConfigMap", Plural: "configmaps", Singular: "configmap"},
		GroupVersion: corev1.SchemeGroupVersion, Namespaced: true,
		New:     func() *corev1.ConfigMap { return &corev1.ConfigMap{} },
		NewList: func() runtime.Object { return &corev1.ConfigMapList{} },
		Fields: func(c *corev1.ConfigMap) fields.Set {
			return fields.Set{"metadata.name": "not this", "data.color": c.Data["color"], "data.size": c.Data["size"]}
		},
		Rules: rules,
	}
}

func namespaces(rules registry.Rules[*corev1.Namespace]) registry.Kind {
	return registry.Definition[*corev1.Namespace]{
		Names:        registry.Names{Kind: "Namespace", Plural: "namespaces", Singular: "namespace"},
		GroupVersion: corev1.SchemeGroupVersion,
		New:          func() *corev1.Namespace { return &corev1.Namespace{} },
		NewList:      func() runtime.Object { return &corev1.NamespaceList{} },
		Rules:        rules,
	}.Kind()
}

// parts are healthy or unhealthy components in two namespaces that exist nowhere else.
type parts struct{ err error }

func part(namespace, name, state string) registry.Object {
	return &corev1.ComponentStatus{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"state": state}}}
}

func (p parts) Get(_ context.Context, namespace, name string) (registry.Object, error) {
	if p.err != nil || name == "none" {
		return nil, p.err
	}
	return part(namespace, name, "well"), nil
}

func (p parts) List(_ context.Context, namespace string) ([]registry.Object, error) {
	if p.err != nil {
		return nil, p.err
	}
	if namespace != "" {
		return []registry.Object{part(namespace, "one", "well")}, nil
	}
	return []registry.Object{part("a", "one", "well"), part("b", "two", "ill"), part("b", "three", "well")}, nil
}

func statuses(p parts) registry.Kind {
	return registry.Computed[*corev1.ComponentStatus]{
		Names:        registry.Names{Kind: "ComponentStatus", Plural: "componentstatuses", Singular: "componentstatus"},
		GroupVersion: corev1.SchemeGroupVersion, Namespaced: true,
		New:     func() *corev1.ComponentStatus { return &corev1.ComponentStatus{} },
		NewList: func() runtime.Object { return &corev1.ComponentStatusList{} },
		Read:    p,
	}.Kind()
}

func reviews() registry.Kind {
	return registry.Review[*authorizationv1.SubjectAccessReview]{
		Names:        registry.Names{Kind: "SubjectAccessReview", Plural: "subjectaccessreviews", Singular: "subjectaccessreview"},
		GroupVersion: authorizationv1.SchemeGroupVersion,
		New:          func() *authorizationv1.SubjectAccessReview { return &authorizationv1.SubjectAccessReview{} },
		Answer: func(_ context.Context, _ registry.Access, namespace string, obj *authorizationv1.SubjectAccessReview) (runtime.Object, error) {
			obj.Status.Reason = "asked in " + namespace
			return obj, nil
		},
	}.Kind()
}

// sorts returns kinds of each sort: namespaced and not, stored, computed and answered.
func sorts() []registry.Kind {
	defaulted := registry.Rules[*corev1.ConfigMap]{Default: func(c *corev1.ConfigMap) {
		if c.Data == nil {
			c.Data = map[string]string{"color": "none"}
		}
	}}
	return []registry.Kind{
		colors(defaulted).Kind(),
		namespaces(registry.Rules[*corev1.Namespace]{CreateOnUpdate: true}),
		statuses(parts{}),
		reviews(),
	}
}

func names[T metav1.Object](objects []T) []string {
	var all []string
	for _, o := range objects {
		all = append(all, strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/"))
	}
	return all
}

func listed(l *registry.List) []string {
	if l == nil {
		return nil
	}
	var objects []registry.Object
	for _, i := range l.Items {
		objects = append(objects, i.Object)
	}
	return names(objects)
}

// TestAccess: what actions do to objects obeys the kind's storage rules, and reaches stored kinds only.
func TestAccess(t *testing.T) {
	reg := openKinds(t, memory.New(memory.Options{}), sorts()...)
	a, ctx := reg.Access(), t.Context()
	for _, gr := range []schema.GroupResource{unknownResource, statusesResource, reviewsResource} {
		key := registry.ObjectKey{Resource: gr, Namespace: "a", Name: "x"}
		_, creating := a.Create(ctx, gr, config("x", ""))
		_, getting := a.Get(ctx, key)
		_, listing := a.List(ctx, gr, "")
		_, modifying := a.Modify(ctx, key, func(registry.Object) error { return nil }, false)
		for what, err := range map[string]error{
			"Create": creating, "Get": getting, "List": listing, "Modify": modifying, "Delete": a.Delete(ctx, key, metav1.DeleteOptions{}),
		} {
			var refused *registry.Error
			if !errors.Is(err, registry.ErrNotFound) || !errors.As(err, &refused) || refused.Resource != gr {
				t.Errorf("%s of %s: %v", what, gr, err)
			}
		}
	}
	for _, key := range [][2]string{{"b", "x"}, {"a", "y"}, {"a", "x"}} {
		made, err := a.Create(ctx, configMapsResource, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: key[0], Name: key[1]}})
		if err != nil || made.GetUID() == "" || made.GetResourceVersion() == "" || made.(*corev1.ConfigMap).Data["color"] != "none" {
			t.Errorf("created: %v, %v", made, err)
		}
	}
	if _, err := a.Create(ctx, configMapsResource, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "x"}}); !errors.Is(err, registry.ErrExists) {
		t.Errorf("created again: %v", err)
	}
	for namespace, want := range map[string]string{"": "a/x,a/y,b/x", "a": "a/x,a/y", "c": ""} {
		if all, err := a.List(ctx, configMapsResource, namespace); err != nil || strings.Join(names(all), ",") != want {
			t.Errorf("list of %q: %v, %v", namespace, names(all), err)
		}
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := a.List(ended, configMapsResource, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("list with an ended context: %v", err)
	}
	x, missing := registry.ObjectKey{Resource: configMapsResource, Namespace: "a", Name: "x"}, registry.ObjectKey{Resource: namespacesResource, Name: "none"}
	paint := func(color string) func(registry.Object) error {
		return func(obj registry.Object) error { obj.(*corev1.ConfigMap).Data["color"] = color; return nil }
	}
	color := func() string {
		t.Helper()
		obj, err := a.Get(ctx, x)
		if err != nil {
			t.Fatal(err)
		}
		return obj.(*corev1.ConfigMap).Data["color"]
	}
	if dry, err := a.Modify(ctx, x, paint("red"), true); err != nil || dry.(*corev1.ConfigMap).Data["color"] != "red" || color() != "none" {
		t.Errorf("dry run: %v, %v, there is %s", dry, err, color())
	}
	if wet, err := a.Modify(ctx, x, paint("red"), false); err != nil || wet.(*corev1.ConfigMap).Data["color"] != "red" || color() != "red" {
		t.Errorf("change: %v, %v, there is %s", wet, err, color())
	}
	refusal := errors.New("not this one")
	if _, err := a.Modify(ctx, x, func(obj registry.Object) error { _ = paint("blue")(obj); return refusal }, false); !errors.Is(err, refusal) || color() != "red" {
		t.Errorf("a change that fails: %v, there is %s", err, color())
	}
	_, getting := a.Get(ctx, missing)
	_, modifying := a.Modify(ctx, missing, func(registry.Object) error { t.Error("nothing was changed"); return nil }, false)
	for what, err := range map[string]error{"Get": getting, "Modify": modifying, "Delete": a.Delete(ctx, missing, metav1.DeleteOptions{})} {
		var refused *registry.Error
		if !errors.Is(err, registry.ErrNotFound) || !errors.As(err, &refused) || refused.Name != "none" {
			t.Errorf("%s of a missing object: %v", what, err)
		}
	}
	if err := a.Delete(ctx, x, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}); err != nil || color() != "red" {
		t.Errorf("deleted in a dry run: %v", err)
	}
	if err := a.Delete(ctx, x, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: new(types.UID("other"))}}); !errors.Is(err, registry.ErrConflict) {
		t.Errorf("deleted under a condition: %v", err)
	}
	if err := a.Delete(ctx, x, metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := a.Get(ctx, x); !errors.Is(err, registry.ErrNotFound) {
		t.Errorf("deleted: %v", err)
	}
}

// TestSource: an informer in this process gets the events of a watch over the network, with the same versions.
func TestSource(t *testing.T) { synctest.Test(t, testSource) }

func testSource(t *testing.T) {
	reg, err := registry.New(memory.New(memory.Options{}), sorts(), registry.Options{History: 8})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer synctest.Wait()
	defer cancel()
	go func() { _ = reg.Run(ctx) }()
	if err := reg.WaitSynced(ctx); err != nil {
		t.Fatal(err)
	}
	for gr, want := range map[schema.GroupResource]string{
		unknownResource: "resource unknowns.x.example is not served", statusesResource: "resource componentstatuses is not served",
		reviewsResource: "is not served", namespacesResource: "resource namespaces has objects of type *v1.Namespace",
	} {
		_, sourcing := registry.Source[*corev1.ConfigMap](reg, gr, registry.Selection{})
		_, reading := registry.NewLive[*corev1.ConfigMap](reg, gr)
		for _, err := range []error{sourcing, reading} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", gr, err)
			}
		}
	}
	source, err := registry.Source[*corev1.ConfigMap](reg, configMapsResource, registry.Selection{Labels: selector(t, "tier=front")})
	if err != nil {
		t.Fatal(err)
	}
	res, _ := reg.Resource(configMapsResource)
	front := map[string]string{"tier": "front"}
	create(t, res, "a", "one", front)
	create(t, res, "a", "other", nil)
	objects, version, err := source.List(ctx)
	if err != nil || strings.Join(names(objects), ",") != "a/one" || version != strconv.FormatInt(reg.Revision(), 10) {
		t.Errorf("list: %v at %s of %d, %v", names(objects), version, reg.Revision(), err)
	}
	stream, err := source.Watch(ctx, version)
	if err != nil {
		t.Fatal(err)
	}
	create(t, res, "a", "two", front)
	relabel := func(l map[string]string) {
		t.Helper()
		_, _, err := res.Update(ctx, "a", "one", func(_ context.Context, current registry.Object) (registry.Object, error) {
			next := current.DeepCopyObject().(registry.Object)
			next.SetLabels(l)
			return next, nil
		}, registry.UpdateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	relabel(map[string]string{"tier": "front", "more": "yes"})
	relabel(nil)
	var told []informer.Event[*corev1.ConfigMap]
	for len(told) < 3 {
		events, err := stream.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		told = append(told, events...)
	}
	stream.Close()
	first, _ := strconv.Atoi(version)
	for i, want := range []struct {
		is   informer.EventType
		name string
	}{{informer.Added, "two"}, {informer.Modified, "one"}, {informer.Deleted, "one"}} {
		e, at := told[i], strconv.Itoa(first+1+i)
		if e.Type != want.is || e.Object.Name != want.name || e.Version != at || e.Object.ResourceVersion != at {
			t.Errorf("event %d: %v of %s at %s, the object's version %s; want %v of %s at %s", i, e.Type, e.Object.Name, e.Version, e.Object.ResourceVersion, want.is, want.name, at)
		}
	}
	if _, err := source.Watch(ctx, "x"); !errors.Is(err, registry.ErrBadRequest) {
		t.Errorf("watch from no version: %v", err)
	}
	if _, err := source.Watch(ctx, "999"); !registry.FutureRevision(err) || errors.Is(err, informer.ErrExpired) {
		t.Errorf("watch from the future: %v", err)
	}
	for i := range 20 {
		create(t, res, "b", strconv.Itoa(i), front)
	}
	_, watching := source.Watch(ctx, version)
	_, reading := stream.Next(ctx)
	for what, err := range map[string]error{"Watch": watching, "Next": reading} {
		if !errors.Is(err, informer.ErrExpired) || !errors.Is(err, registry.ErrExpired) {
			t.Errorf("%s from before the history: %v", what, err)
		}
	}
	cancel()
	if _, _, err := source.List(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("list: %v", err)
	}
}

// TestLive: a live reader shows each write at once, by name, by namespace and by index.
func TestLive(t *testing.T) {
	ctx := t.Context()
	res, live := openLive(t)
	computed := 0
	byLabel := func(c *corev1.ConfigMap) []string {
		computed++
		if c.Labels["l"] == "" {
			return nil
		}
		return strings.Split(c.Labels["l"], ".")
	}
	check := func(want map[string]string) {
		t.Helper()
		for value, keys := range want {
			if got := strings.Join(names(live.ByIndex("l", value)), ","); got != keys {
				t.Errorf("under %q: %s, want %s", value, got, keys)
			}
		}
	}
	live.AddIndex("l", byLabel)
	check(map[string]string{"": "", "red": ""})
	create(t, res, "b", "x", map[string]string{"l": "red"})
	create(t, res, "a", "y", map[string]string{"l": "red.blue"})
	create(t, res, "a", "x", map[string]string{"l": "red"})
	create(t, res, "a", "z", nil)
	check(map[string]string{"red": "a/x,a/y,b/x", "blue": "a/y", "green": ""})
	once := computed
	check(map[string]string{"red": "a/x,a/y,b/x", "blue": "a/y", "green": ""})
	if computed != once {
		t.Errorf("%d values were computed for an index that nothing has changed", computed-once)
	}
	live.AddIndex("l", func(*corev1.ConfigMap) []string { return []string{"green"} })
	check(map[string]string{"red": "a/x,a/y,b/x", "green": ""})
	if live.ByIndex("none", "red") != nil {
		t.Error("found an index that was not added")
	}
	for namespace, want := range map[string]string{"": "a/x,a/y,a/z,b/x", "a": "a/x,a/y,a/z", "c": ""} {
		if got := strings.Join(names(live.List(namespace)), ","); got != want {
			t.Errorf("list of %q: %s", namespace, got)
		}
	}
	if obj, ok := live.Get("a", "y"); !ok || obj.Labels["l"] != "red.blue" {
		t.Errorf("get: %v, %v", obj, ok)
	}
	if obj, ok := live.Get("a", "none"); ok || obj != nil {
		t.Errorf("get of a missing object: %v, %v", obj, ok)
	}
	relabel := func(name, label string) {
		t.Helper()
		_, _, err := res.Update(ctx, "a", name, func(_ context.Context, current registry.Object) (registry.Object, error) {
			next := current.DeepCopyObject().(registry.Object)
			next.SetLabels(map[string]string{"l": label})
			return next, nil
		}, registry.UpdateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	relabel("y", "blue")
	if _, _, err := res.Delete(ctx, "b", "x", registry.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	check(map[string]string{"red": "a/x", "blue": "a/y"})
	for i := range 20 { // more than the history holds
		relabel("z", strconv.Itoa(i))
	}
	relabel("x", "blue")
	check(map[string]string{"red": "", "blue": "a/x,a/y", "18": "", "19": "a/z"})
	live.AddIndex("name", func(c *corev1.ConfigMap) []string { return []string{c.Name} })
	if got := names(live.ByIndex("name", "z")); !slices.Equal(got, []string{"a/z"}) {
		t.Errorf("by an index that was added late: %v", got)
	}
}

// TestComputed: a computed kind is computed at each read, and its lists are narrowed like others.
func TestComputed(t *testing.T) {
	ctx := t.Context()
	reg := openKinds(t, memory.New(memory.Options{}), sorts()...)
	res, ok := reg.Resource(statusesResource)
	if !ok || res.Stored() || res.Len() != 0 || res.Unreadable("") != nil || !res.Namespaced || len(res.Columns.Definitions) != 2 {
		t.Errorf("resource: %+v, %v", res, ok)
	}
	if item, err := res.Get(ctx, "a", "x", "77"); err != nil || item.Object.GetNamespace() != "a" || item.Object.GetName() != "x" {
		t.Errorf("get: %v, %v", item, err)
	}
	_, err := res.Get(ctx, "a", "none", "")
	if refused := (*registry.Error)(nil); !errors.Is(err, registry.ErrNotFound) || !errors.As(err, &refused) || refused.Name != "none" || refused.Resource != statusesResource {
		t.Errorf("get of a missing object: %v", err)
	}
	for _, c := range []struct {
		selection registry.Selection
		want      string
	}{
		{registry.Selection{}, "a/one,b/two,b/three"},
		{registry.Selection{Namespace: "c"}, "c/one"},
		{registry.Selection{Labels: selector(t, "state=well")}, "a/one,b/three"},
		{registry.Selection{Fields: fields.OneTermEqualSelector("metadata.name", "two")}, "b/two"},
		{registry.Selection{Fields: fields.OneTermEqualSelector("metadata.namespace", "b"), Labels: selector(t, "state=well")}, "b/three"},
	} {
		l, err := res.List(ctx, registry.ListOptions{Selection: c.selection, Limit: 1})
		if err != nil || strings.Join(listed(l), ",") != c.want || l.Continue != "" {
			t.Errorf("list of %v: %v, %v; want %s", c.selection, listed(l), err, c.want)
		}
	}
	broken := errors.New("broken")
	reg = openKinds(t, memory.New(memory.Options{}), statuses(parts{broken}))
	res, _ = reg.Resource(statusesResource)
	_, getting := res.Get(ctx, "a", "none", "")
	_, listing := res.List(ctx, registry.ListOptions{})
	if !errors.Is(getting, broken) || !errors.Is(listing, broken) {
		t.Errorf("objects that cannot be computed: %v, %v", getting, listing)
	}
}

// TestReview: a kind that answers stores nothing.
func TestReview(t *testing.T) {
	k := reviews()
	if k.Stored() || k.Namespaced || k.GroupResource() != reviewsResource {
		t.Errorf("kind: %+v", k)
	}
	answer, err := k.Answer(t.Context(), nil, "a", k.NewRequest())
	if got, ok := answer.(*authorizationv1.SubjectAccessReview); err != nil || !ok || got.Status.Reason != "asked in a" {
		t.Errorf("answer: %v, %v", answer, err)
	}
}

// TestScheme: clients find each type in each version that serves it, with lists, bodies of actions and options.
func TestScheme(t *testing.T) {
	scaled := colors(registry.Rules[*corev1.ConfigMap]{})
	scaled.Also = []registry.Version{{
		Names: registry.Names{Kind: "OtherMap"}, GroupVersion: appsv1.SchemeGroupVersion,
		New: func() registry.Object { return &appsv1.Deployment{} }, NewList: func() runtime.Object { return &appsv1.DeploymentList{} },
	}}
	scaled.Sub.Scale = &registry.Scale[*corev1.ConfigMap]{}
	scaled.Sub.Actions = map[string]registry.Action{"eviction": {
		GroupVersionKind: policyv1.SchemeGroupVersion.WithKind("Eviction"), New: func() runtime.Object { return &policyv1.Eviction{} },
	}}
	s := registry.Scheme([]registry.Kind{scaled.Kind(), reviews(), statuses(parts{})})
	for gvk, want := range map[schema.GroupVersionKind]runtime.Object{
		{Version: "v1", Kind: "ConfigMap"}:                                          &corev1.ConfigMap{},
		{Version: "v1", Kind: "ConfigMapList"}:                                      &corev1.ConfigMapList{},
		{Group: "apps", Version: "v1", Kind: "OtherMap"}:                            &appsv1.Deployment{},
		{Group: "apps", Version: "v1", Kind: "OtherMapList"}:                        &appsv1.DeploymentList{},
		{Group: "apps", Version: "v1", Kind: "ListOptions"}:                         &metav1.ListOptions{},
		{Group: "policy", Version: "v1", Kind: "Eviction"}:                          &policyv1.Eviction{},
		{Group: "autoscaling", Version: "v1", Kind: "Scale"}:                        &autoscalingv1.Scale{},
		{Group: "authorization.k8s.io", Version: "v1", Kind: "SubjectAccessReview"}: &authorizationv1.SubjectAccessReview{},
		{Group: "authorization.k8s.io", Version: "v1", Kind: "DeleteOptions"}:       &metav1.DeleteOptions{},
		{Version: "v1", Kind: "ComponentStatus"}:                                    &corev1.ComponentStatus{},
		{Version: "v1", Kind: "ListOptions"}:                                        &metav1.ListOptions{},
		{Version: "v1", Kind: "WatchEvent"}:                                         &metav1.WatchEvent{},
		{Version: "v1", Kind: "Status"}:                                             &metav1.Status{},
	} {
		got, err := s.New(gvk)
		if err != nil {
			t.Errorf("%s: %v", gvk, err)
			continue
		}
		if reflect.TypeOf(got) != reflect.TypeOf(want) {
			t.Errorf("%s is a %T, want a %T", gvk, got, want)
		}
	}
	for _, gvk := range []schema.GroupVersionKind{
		{Group: "authorization.k8s.io", Version: "v1", Kind: "SubjectAccessReviewList"}, {Group: "autoscaling", Version: "v1", Kind: "Other"},
	} {
		if s.Recognizes(gvk) {
			t.Errorf("%s is known", gvk)
		}
	}
	if registry.Scheme([]registry.Kind{colors(registry.Rules[*corev1.ConfigMap]{}).Kind()}).Recognizes(autoscalingv1.SchemeGroupVersion.WithKind("Scale")) {
		t.Error("found a Scale for a kind without scale")
	}
}

// TestNewScale: the Scale of an object has the object's metadata.
func TestNewScale(t *testing.T) {
	made := metav1.NewTime(time.Unix(1_000_000, 0))
	scaled := colors(registry.Rules[*corev1.ConfigMap]{})
	scaled.Sub.Scale = &registry.Scale[*corev1.ConfigMap]{
		Spec:   func(c *corev1.ConfigMap) int32 { return int32(len(c.Data)) },
		Status: func(c *corev1.ConfigMap) (int32, string) { return int32(len(c.Name)), c.Name },
		Set:    func(c *corev1.ConfigMap, n int32) { c.Name = strconv.Itoa(int(n)) },
	}
	erased := scaled.Kind().Sub.Scale
	obj := &corev1.ConfigMap{Data: map[string]string{"a": "b"}, ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "xyz", UID: "u", ResourceVersion: "7", CreationTimestamp: made, Labels: map[string]string{"l": "v"}, Generation: 3,
	}}
	got := registry.NewScale(*erased, registry.Object(obj))
	want := autoscalingv1.Scale{
		TypeMeta:   metav1.TypeMeta{APIVersion: "autoscaling/v1", Kind: "Scale"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "xyz", UID: "u", ResourceVersion: "7", CreationTimestamp: made},
		Spec:       autoscalingv1.ScaleSpec{Replicas: 1}, Status: autoscalingv1.ScaleStatus{Replicas: 3, Selector: "xyz"},
	}
	if got.String() != want.String() || got.TypeMeta != want.TypeMeta {
		t.Errorf("scale: %v", got)
	}
	if erased.Set(obj, 5); obj.Name != "5" {
		t.Errorf("set: %v", obj)
	}
	if k := colors(registry.Rules[*corev1.ConfigMap]{}).Kind(); k.Sub.Scale != nil || k.Sub.Views != nil {
		t.Errorf("subresources of a kind without: %+v", k.Sub)
	}
}

// TestInvalidKinds: an incomplete or conflicting kind is refused, and the error names it.
func TestInvalidKinds(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*registry.Kind)
		want   string
	}{
		"whole":           {func(*registry.Kind) {}, ""},
		"no plural":       {func(k *registry.Kind) { k.Plural = "" }, "kind, plural and version must be set"},
		"no kind":         {func(k *registry.Kind) { k.Names.Kind = "" }, "kind, plural and version must be set"},
		"no version":      {func(k *registry.Kind) { k.GroupVersion = schema.GroupVersion{} }, "kind, plural and version must be set"},
		"no type":         {func(k *registry.Kind) { k.New = nil }, "New and NewList must be set"},
		"no list":         {func(k *registry.Kind) { k.NewList = nil }, "New and NewList must be set"},
		"columns alone":   {func(k *registry.Kind) { k.Columns.Definitions = []metav1.TableColumnDefinition{{}} }, "columns need both"},
		"cells alone":     {func(k *registry.Kind) { k.Columns.Cells = func(registry.Object, time.Time) []any { return nil } }, "columns need both"},
		"twice":           {func(k *registry.Kind) { k.Plural, k.Prefix = "others", "b" }, "resource others is defined twice"},
		"another's place": {func(k *registry.Kind) { k.Prefix = "others" }, `resources configmaps and others share the storage prefix "others"`},
	} {
		other, k := colors(registry.Rules[*corev1.ConfigMap]{}), colors(registry.Rules[*corev1.ConfigMap]{}).Kind()
		other.Plural = "others"
		c.change(&k)
		_, err := registry.New(memory.New(memory.Options{}), []registry.Kind{other.Kind(), k}, registry.Options{})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	reg, err := registry.New(memory.New(memory.Options{}), sorts(), registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	for _, res := range reg.Resources() {
		order = append(order, res.Plural)
	}
	if _, served := reg.Resource(unknownResource); served || strings.Join(order, ",") != "configmaps,namespaces,componentstatuses,subjectaccessreviews" {
		t.Errorf("served: %v, %v", order, served)
	}
}
