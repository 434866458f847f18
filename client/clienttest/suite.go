package clienttest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
)

// TestClient runs the suite. The function opens, for each part, a client of an API server of the core kinds that has no
// objects and admits everything.
func TestClient(t *testing.T, open func(t *testing.T) client.Client) {
	for _, part := range []struct {
		name string
		test func(*suite)
	}{
		{"create names, dates and returns the object", (*suite).create},
		{"what is passed in is not changed, and what is returned is the caller's", (*suite).shares},
		{"errors are told by their kind", (*suite).kinds},
		{"update is conditional on version and uid", (*suite).update},
		{"subresources are kept apart", (*suite).subresources},
		{"all three patches", (*suite).patch},
		{"delete is graceful, conditional and held up by finalizers", (*suite).remove},
		{"lists select and come in pages", (*suite).list},
		{"a dry run changes nothing", (*suite).dryRun},
		{"one of many conditional writers wins", (*suite).race},
	} {
		t.Run(part.name, func(t *testing.T) { part.test(&suite{t, open(t)}) })
	}
}

// suite is one part at work.
type suite struct {
	*testing.T
	client.Client
}

func configMap(name string) client.Target {
	return client.Target{Resource: corev1.SchemeGroupVersion.WithResource("configmaps"), Namespace: "default", Name: name}
}

func podAt(name, subresource string) client.Target {
	return client.Target{Resource: corev1.SchemeGroupVersion.WithResource("pods"), Namespace: "default", Name: name, Subresource: subresource}
}

func named(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"name": name}}, Data: map[string]string{"k": "v"}}
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"name": name}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
}

// made creates an object that must be creatable.
func made[T metav1.Object](s *suite, t client.Target, obj runtime.Object) T {
	s.Helper()
	t.Name = ""
	out, err := s.Create(s.Context(), t, obj, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
	return out.(T)
}

// got reads an object that must be there.
func got[T metav1.Object](s *suite, t client.Target) T {
	s.Helper()
	out, err := s.Get(s.Context(), t)
	if err != nil {
		s.Fatal(err)
	}
	return out.(T)
}

func (s *suite) create() {
	m := made[*corev1.ConfigMap](s, configMap(""), named("a"))
	if m.UID == "" || m.ResourceVersion == "" || m.Namespace != "default" || m.CreationTimestamp.IsZero() || m.Data["k"] != "v" {
		s.Errorf("created %+v", m)
	}
	generated := made[*corev1.ConfigMap](s, configMap(""), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "a-"}})
	if len(generated.Name) <= len("a-") || generated.Name[:2] != "a-" {
		s.Errorf("generated name %q", generated.Name)
	}
	if p := made[*corev1.Pod](s, podAt("", ""), pod("p")); p.Status.Phase != corev1.PodPending || p.Spec.RestartPolicy != corev1.RestartPolicyAlways {
		s.Errorf("defaults are missing: %+v", p)
	}
}

func (s *suite) shares() {
	mine := named("a")
	stored := made[*corev1.ConfigMap](s, configMap(""), mine)
	if mine.UID != "" || mine.ResourceVersion != "" || mine.Namespace != "" {
		s.Errorf("the object passed in is now %+v", mine)
	}
	stored.Data["k"] = "mine"
	list, err := s.List(s.Context(), configMap(""), metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	for i := range list.(*corev1.ConfigMapList).Items {
		list.(*corev1.ConfigMapList).Items[i].Data["k"] = "mine"
	}
	got[*corev1.ConfigMap](s, configMap("a")).Data["k"] = "mine"
	if m := got[*corev1.ConfigMap](s, configMap("a")); m.Data["k"] != "v" {
		s.Errorf("a change of what was returned shows: %v", m.Data)
	}
}

func (s *suite) kinds() {
	ctx := s.Context()
	made[*corev1.ConfigMap](s, configMap(""), named("a"))
	_, missing := s.Get(ctx, configMap("b"))
	_, exists := s.Create(ctx, configMap(""), named("a"), metav1.CreateOptions{})
	_, invalid := s.Create(ctx, configMap(""), named("Not_A_Name"), metav1.CreateOptions{})
	_, noName := s.Get(ctx, configMap(""))
	elsewhere := named("c")
	elsewhere.Namespace = "other"
	_, misplaced := s.Create(ctx, configMap(""), elsewhere, metav1.CreateOptions{})
	gadgets := configMap("a")
	gadgets.Resource.Resource = "gadgets"
	_, unknown := s.Get(ctx, gadgets)
	_, selector := s.List(ctx, configMap(""), metav1.ListOptions{LabelSelector: "?!"})
	for what, is := range map[string]bool{
		"missing":   apierrors.IsNotFound(missing),
		"exists":    apierrors.IsAlreadyExists(exists),
		"invalid":   apierrors.IsInvalid(invalid),
		"no name":   errors.Is(noName, client.ErrNoName),
		"misplaced": apierrors.IsBadRequest(misplaced),
		"unknown":   apierrors.IsNotFound(unknown),
		"selector":  apierrors.IsBadRequest(selector),
	} {
		if !is {
			s.Errorf("%s: not told (%v, %v, %v, %v, %v, %v, %v)", what, missing, exists, invalid, noName, misplaced, unknown, selector)
		}
	}
}

func (s *suite) update() {
	ctx := s.Context()
	stale := made[*corev1.ConfigMap](s, configMap(""), named("a"))
	next := stale.DeepCopy()
	next.Data["k"] = "w"
	out, err := s.Update(ctx, configMap("a"), next, metav1.UpdateOptions{})
	if err != nil || out.(*corev1.ConfigMap).ResourceVersion == stale.ResourceVersion || out.(*corev1.ConfigMap).Data["k"] != "w" {
		s.Errorf("updated to %v, %v", out, err)
	}
	if _, err := s.Update(ctx, configMap("a"), stale, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		s.Errorf("stale update: %v", err)
	}
	stale.ResourceVersion, stale.UID = "", "other"
	if _, err := s.Update(ctx, configMap("a"), stale, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		s.Errorf("update of another uid: %v", err)
	}
	if _, err := s.Update(ctx, configMap("b"), named("b"), metav1.UpdateOptions{}); !apierrors.IsNotFound(err) {
		s.Errorf("update of what is not there: %v", err)
	}
}

func (s *suite) subresources() {
	ctx := s.Context()
	p := made[*corev1.Pod](s, podAt("", ""), pod("p"))
	p.Status.Phase, p.Labels["more"] = corev1.PodRunning, "x"
	if _, err := s.Update(ctx, podAt("p", ""), p.DeepCopy(), metav1.UpdateOptions{}); err != nil {
		s.Fatal(err)
	}
	if p := got[*corev1.Pod](s, podAt("p", "")); p.Status.Phase != corev1.PodPending || p.Labels["more"] != "x" {
		s.Errorf("after an update: %s, %v", p.Status.Phase, p.Labels)
	}
	p.ResourceVersion, p.Spec.Containers[0].Image = "", "j"
	if _, err := s.Update(ctx, podAt("p", "status"), p, metav1.UpdateOptions{}); err != nil {
		s.Fatal(err)
	}
	if p := got[*corev1.Pod](s, podAt("p", "")); p.Status.Phase != corev1.PodRunning || p.Spec.Containers[0].Image != "i" {
		s.Errorf("after an update of the status: %s, %s", p.Status.Phase, p.Spec.Containers[0].Image)
	}
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Target: corev1.ObjectReference{Kind: "Node", Name: "n"}}
	if _, err := s.Create(ctx, podAt("p", "binding"), binding, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
	if p := got[*corev1.Pod](s, podAt("p", "")); p.Spec.NodeName != "n" {
		s.Errorf("bound to %q", p.Spec.NodeName)
	}
	if _, err := s.Create(ctx, podAt("p", "binding"), binding, metav1.CreateOptions{}); !apierrors.IsConflict(err) {
		s.Errorf("second binding: %v", err)
	}
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	if _, err := s.Create(ctx, podAt("p", "eviction"), eviction, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
	if p := got[*corev1.Pod](s, podAt("p", "")); p.DeletionTimestamp == nil {
		s.Error("evicted, but not being deleted")
	}
	rc := client.Target{Resource: corev1.SchemeGroupVersion.WithResource("pods"), Namespace: "default", Name: "p", Subresource: "scale"}
	if _, err := s.Update(ctx, rc, &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Name: "p"}}, metav1.UpdateOptions{}); !apierrors.IsNotFound(err) {
		s.Errorf("scale of a pod: %v", err)
	}
}

func (s *suite) patch() {
	made[*corev1.Pod](s, podAt("", ""), pod("p"))
	for _, c := range []struct {
		form types.PatchType
		data string
		want func(error) bool
	}{
		{types.MergePatchType, `{"metadata":{"labels":{"name":null,"a":"1"}}}`, nil},
		{types.JSONPatchType, `[{"op":"add","path":"/metadata/labels/b","value":"2"}]`, nil},
		{types.StrategicMergePatchType, `{"spec":{"containers":[{"name":"c","image":"j"}]}}`, nil},
		{types.StrategicMergePatchType, `{"metadata":{"uid":"other"}}`, func(err error) bool { return apierrors.IsInvalid(err) || apierrors.IsConflict(err) }},
		{types.MergePatchType, `{"metadata":{"resourceVersion":"1"}}`, apierrors.IsConflict},
		{types.JSONPatchType, `{`, apierrors.IsBadRequest},
	} {
		_, err := s.Patch(s.Context(), podAt("p", ""), client.Patch{Type: c.form, Data: []byte(c.data)}, metav1.PatchOptions{})
		if c.want == nil && err != nil || c.want != nil && !c.want(err) {
			s.Errorf("%s: %v", c.data, err)
		}
	}
	p := got[*corev1.Pod](s, podAt("p", ""))
	if fmt.Sprint(p.Labels) != "map[a:1 b:2]" || len(p.Spec.Containers) != 1 || p.Spec.Containers[0].Image != "j" {
		s.Errorf("after patches: %v, %+v", p.Labels, p.Spec.Containers)
	}
}

func (s *suite) remove() {
	ctx := s.Context()
	kept, running := named("kept"), pod("running")
	kept.Finalizers, running.Spec.NodeName = []string{"example.com/keep"}, "n"
	kept = made[*corev1.ConfigMap](s, configMap(""), kept)
	made[*corev1.Pod](s, podAt("", ""), running)
	made[*corev1.ConfigMap](s, configMap(""), named("free"))
	err := s.Delete(ctx, configMap("free"), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: new(types.UID("other"))}})
	if !apierrors.IsConflict(err) {
		s.Errorf("delete of another uid: %v", err)
	}
	for _, t := range []client.Target{configMap("kept"), podAt("running", ""), configMap("free")} {
		if err := s.Delete(ctx, t, metav1.DeleteOptions{}); err != nil {
			s.Errorf("delete %s: %v", t.Name, err)
		}
	}
	if p := got[*corev1.Pod](s, podAt("running", "")); p.DeletionTimestamp == nil || *p.DeletionGracePeriodSeconds != 30 {
		s.Errorf("the pod on a node: %+v", p.ObjectMeta)
	}
	if m := got[*corev1.ConfigMap](s, configMap("kept")); m.DeletionTimestamp == nil {
		s.Error("what a finalizer keeps is not marked")
	}
	kept.Finalizers, kept.ResourceVersion = nil, ""
	if _, err := s.Update(ctx, configMap("kept"), kept, metav1.UpdateOptions{}); err != nil {
		s.Error(err)
	}
	if err := s.Delete(ctx, podAt("running", ""), metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}); err != nil {
		s.Error(err)
	}
	for _, t := range []client.Target{configMap("kept"), podAt("running", ""), configMap("free")} {
		if _, err := s.Get(ctx, t); !apierrors.IsNotFound(err) {
			s.Errorf("%s is still there: %v", t.Name, err)
		}
	}
	made[*corev1.ConfigMap](s, configMap(""), named("a"))
	made[*corev1.ConfigMap](s, configMap(""), named("b"))
	if err := s.Delete(ctx, configMap(""), metav1.DeleteOptions{}); err != nil {
		s.Error(err)
	}
	if l, err := s.List(ctx, configMap(""), metav1.ListOptions{}); err != nil || meta.LenList(l) != 0 {
		s.Errorf("after the deletion of the collection: %v, %v", l, err)
	}
}

func (s *suite) list() {
	for _, name := range []string{"a", "b", "c"} {
		made[*corev1.ConfigMap](s, configMap(""), named(name))
	}
	names := func(o metav1.ListOptions) (all []string, next string) {
		out, err := s.List(s.Context(), configMap(""), o)
		if err != nil {
			s.Fatal(err)
		}
		l := out.(*corev1.ConfigMapList)
		if l.ResourceVersion == "" {
			s.Error("the list has no version")
		}
		for i := range l.Items {
			all = append(all, l.Items[i].Name)
		}
		return all, l.Continue
	}
	if all, next := names(metav1.ListOptions{}); !slices.Equal(all, []string{"a", "b", "c"}) || next != "" {
		s.Errorf("all: %v, %q", all, next)
	}
	if some, _ := names(metav1.ListOptions{LabelSelector: "name in (a,c)"}); !slices.Equal(some, []string{"a", "c"}) {
		s.Errorf("by label: %v", some)
	}
	if some, _ := names(metav1.ListOptions{FieldSelector: "metadata.name=b"}); !slices.Equal(some, []string{"b"}) {
		s.Errorf("by field: %v", some)
	}
	first, next := names(metav1.ListOptions{Limit: 2})
	rest, end := names(metav1.ListOptions{Limit: 2, Continue: next})
	if !slices.Equal(first, []string{"a", "b"}) || next == "" || !slices.Equal(rest, []string{"c"}) || end != "" {
		s.Errorf("pages %v %v, then %q", first, rest, end)
	}
}

func (s *suite) dryRun() {
	ctx, dry := s.Context(), []string{metav1.DryRunAll}
	stored := made[*corev1.ConfigMap](s, configMap(""), named("a"))
	if out, err := s.Create(ctx, configMap(""), named("b"), metav1.CreateOptions{DryRun: dry}); err != nil || out.(*corev1.ConfigMap).UID == "" {
		s.Errorf("create: %v, %v", out, err)
	}
	next := stored.DeepCopy()
	next.Data["k"] = "w"
	if out, err := s.Update(ctx, configMap("a"), next, metav1.UpdateOptions{DryRun: dry}); err != nil || out.(*corev1.ConfigMap).Data["k"] != "w" {
		s.Errorf("update: %v, %v", out, err)
	}
	change := client.Patch{Type: types.MergePatchType, Data: []byte(`{"data":{"k":"w"}}`)}
	if out, err := s.Patch(ctx, configMap("a"), change, metav1.PatchOptions{DryRun: dry}); err != nil || out.(*corev1.ConfigMap).Data["k"] != "w" {
		s.Errorf("patch: %v, %v", out, err)
	}
	if err := s.Delete(ctx, configMap("a"), metav1.DeleteOptions{DryRun: dry}); err != nil {
		s.Errorf("delete: %v", err)
	}
	if m := got[*corev1.ConfigMap](s, configMap("a")); m.ResourceVersion != stored.ResourceVersion || m.Data["k"] != "v" {
		s.Errorf("afterwards: %+v", m)
	}
	if _, err := s.Get(ctx, configMap("b")); !apierrors.IsNotFound(err) {
		s.Errorf("created after all: %v", err)
	}
}

func (s *suite) race() {
	stored := made[*corev1.ConfigMap](s, configMap(""), named("a"))
	var (
		all       sync.WaitGroup
		mu        sync.Mutex
		won, lost int
	)
	for n := range 10 {
		all.Go(func() {
			mine := stored.DeepCopy()
			mine.Data["k"] = fmt.Sprint(n)
			_, err := s.Update(s.Context(), configMap("a"), mine, metav1.UpdateOptions{})
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				won++
			case apierrors.IsConflict(err):
				lost++
			default:
				s.Error(err)
			}
		})
	}
	all.Wait()
	if won != 1 || lost != 9 {
		s.Errorf("%d writers won, %d lost", won, lost)
	}
}
