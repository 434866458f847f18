package policies_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"testing"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	theirs "k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/registry/status"
)

var (
	count = flag.Int("policies", 1000, "how many random policies of each kind")
	seed  = flag.Uint64("seed", 1, "where the random numbers begin")
)

// batch is how many policies upstream's plugin has at a time: it looks at all of them at each admission, and its fake client has no
// room for more than 100.
const batch = 90

// outcome is what a client and the audit log are told, and what is stored.
type outcome struct {
	Status      *metav1.Status
	Warnings    []string
	Annotations map[string]string
	Object      any
}

func (o outcome) String() string {
	text, err := json.MarshalIndent(o, "", " ")
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// operation is an admission.
type operation struct {
	verb        admission.Operation
	kind        schema.GroupVersionKind
	resource    schema.GroupVersionResource
	name        string
	object, old runtime.Object // in the version, with its defaults, without its type; or nil
	options     runtime.Object
	dryRun      bool
}

// operations returns the admission number n.
func randomOperation(r *rand.Rand, name string) operation {
	o := operation{name: name, verb: pick(r, admission.Create, admission.Create, admission.Update), dryRun: r.IntN(4) == 0}
	o.object, o.kind, o.resource = randomObject(r, name)
	o.options = &metav1.CreateOptions{FieldManager: "me"}
	if o.verb == admission.Update {
		old := o.object.DeepCopyObject()
		old.(metav1.Object).SetLabels(map[string]string{"app": "old"})
		o.old, o.options = old, &metav1.UpdateOptions{}
	}
	return o
}

func randomObject(r *rand.Rand, name string) (runtime.Object, schema.GroupVersionKind, schema.GroupVersionResource) {
	meta := metav1.ObjectMeta{Name: name, Namespace: "default", Labels: map[string]string{"app": pick(r, "a", "b")}}
	if r.IntN(2) == 0 {
		meta.Annotations = map[string]string{"note": "n", "example.com/x": "1"}
	}
	pod := corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.com/main:1", Env: []corev1.EnvVar{{Name: "A", Value: "1"}}}}}
	if r.IntN(2) == 0 {
		pod.Containers = append(pod.Containers, corev1.Container{Name: "side", Image: "other.io/side", Ports: []corev1.ContainerPort{{ContainerPort: 80, Protocol: "TCP"}}})
		pod.HostNetwork = r.IntN(3) == 0
		pod.NodeSelector = map[string]string{"zone": "a"}
	}
	var obj runtime.Object
	var kind, resource string
	gv := corev1.SchemeGroupVersion
	switch r.IntN(3) {
	case 0:
		obj, kind, resource = &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"x": pick(r, "y", "z"), "n": "3"}}, "ConfigMap", "configmaps"
	case 1:
		obj, kind, resource = &corev1.Pod{ObjectMeta: meta, Spec: pod}, "Pod", "pods"
	default:
		gv = appsv1.SchemeGroupVersion
		obj, kind, resource = &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(r.IntN(4))), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "a"}}, Spec: pod},
		}}, "Deployment", "deployments"
	}
	legacyscheme.Scheme.Default(obj)
	return obj, gv.WithKind(kind), gv.WithResource(resource)
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// recorder collects warnings.
type recorder []string

func (w *recorder) AddWarning(_, text string) { *w = append(*w, text) }

// attributes collects annotations.
type attributes struct {
	theirs.Attributes
	annotations map[string]string
}

func (a *attributes) AddAnnotation(key, value string) error {
	a.annotations[key] = value
	return nil
}

// internal is an object as upstream's plugins get it.
func internal(t *testing.T, obj runtime.Object, kind schema.GroupVersionKind) runtime.Object {
	t.Helper()
	if obj == nil {
		return nil
	}
	out, err := legacyscheme.Scheme.ConvertToVersion(obj, schema.GroupVersion{Group: kind.Group, Version: runtime.APIVersionInternal})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// upstream is what upstream's plugin makes of an admission. A mutating one runs again if it asks for it.
func upstream(t *testing.T, p theirs.Interface, o operation) outcome {
	t.Helper()
	var warnings recorder
	ctx := warning.WithWarningRecorder(t.Context(), &warnings)
	who := &user.DefaultInfo{Name: "ann", UID: "7", Groups: []string{"devs"}, Extra: map[string][]string{"k": {"v"}}}
	options := o.options.DeepCopyObject()
	options.GetObjectKind().SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind(reflect.TypeOf(options).Elem().Name()))
	a := &attributes{annotations: map[string]string{}, Attributes: theirs.NewAttributesRecord(internal(t, o.object, o.kind), internal(t, o.old, o.kind), o.kind, "default", o.name,
		o.resource, "", theirs.Operation(o.verb), options, o.dryRun, who)}
	interfaces := theirs.NewObjectInterfacesFromScheme(legacyscheme.Scheme)
	var err error
	out := outcome{}
	if m, ok := p.(theirs.MutationInterface); ok {
		err = m.Admit(ctx, a, interfaces)
		if again := a.GetReinvocationContext(); err == nil && again.ShouldReinvoke() {
			again.SetIsReinvoke()
			err = m.Admit(ctx, a, interfaces)
		}
		if err == nil {
			versioned, err := legacyscheme.Scheme.ConvertToVersion(a.GetObject(), o.kind.GroupVersion())
			if err != nil {
				t.Fatal(err)
			}
			versioned.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
			out.Object = content(t, versioned)
		}
	} else {
		err = p.(theirs.ValidationInterface).Validate(ctx, a, interfaces)
	}
	out.Warnings, out.Annotations, out.Status = warnings, a.annotations, statusOf(err)
	return out
}

func statusOf(err error) *metav1.Status {
	if err == nil {
		return nil
	}
	var carried apierrors.APIStatus
	if errors.As(err, &carried) {
		s := carried.Status()
		return &s
	}
	return &metav1.Status{Message: "no status: " + err.Error()}
}

// content is an object as decoded JSON.
func content(t *testing.T, obj any) any {
	t.Helper()
	text, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	var out any
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// told collects what our plugins tell.
type told struct {
	warnings    []string
	annotations map[string]string
}

// keelson is what our plugin makes of an admission.
func keelson(t *testing.T, p admission.Plugin, to *told, o operation) outcome {
	t.Helper()
	*to = told{annotations: map[string]string{}}
	r := &admission.Request{
		Operation: o.verb, Kind: o.kind, Resource: o.resource, Namespace: "default", Name: o.name, Options: o.options, DryRun: o.dryRun,
		User: &authn.Identity{Name: "ann", UID: "7", Groups: []string{"devs"}, Extra: map[string][]string{"k": {"v"}}},
	}
	if o.object != nil {
		r.Object = o.object.DeepCopyObject()
	}
	if o.old != nil {
		r.OldObject = o.old.DeepCopyObject()
	}
	var err error
	out := outcome{}
	if m, ok := p.(admission.Mutator); ok {
		if err = (admission.Chain{m}).Admit(t.Context(), r); err == nil {
			out.Object = content(t, r.Object)
		}
	} else {
		err = p.(admission.Validator).Validate(t.Context(), r)
	}
	out.Warnings, out.Annotations = to.warnings, to.annotations
	var e *admission.Error
	switch {
	case errors.As(err, &e) && errors.Is(err, admission.ErrInternal):
		out.Status = &apierrors.NewInternalError(errors.New(e.Message)).ErrStatus
	case err != nil:
		out.Status = status.Of(err)
	}
	return out
}

// compare reports a difference.
func compare(t *testing.T, policy any, o operation, got, want outcome) {
	t.Helper()
	if len(got.Warnings) == 0 && len(want.Warnings) == 0 {
		got.Warnings, want.Warnings = nil, nil
	}
	if maps.Equal(got.Annotations, want.Annotations) && reflect.DeepEqual(got.Warnings, want.Warnings) &&
		reflect.DeepEqual(content(t, got.Status), content(t, want.Status)) && reflect.DeepEqual(got.Object, want.Object) {
		return
	}
	text, err := json.MarshalIndent(policy, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	t.Errorf("%s %s %s\npolicy %s\ngot  %s\nwant %s", o.verb, o.kind.Kind, o.name, text, got, want)
}

// tally counts outcomes, so that a test shows what it has compared.
type tally map[string]int

func (c tally) add(o outcome, before any) {
	switch {
	case o.Status != nil && o.Status.Code >= 500:
		c["errors"]++
	case o.Status != nil:
		c["refused"]++
	case before != nil && !reflect.DeepEqual(o.Object, before):
		c["changed"]++
	default:
		c["allowed"]++
	}
	c["warned"] += min(1, len(o.Warnings))
	c["annotated"] += min(1, len(o.Annotations))
}

func TestValidating(t *testing.T) {
	seen := tally{}
	for first := 0; first < *count; first += batch {
		w := newWorld(t)
		var operations []operation
		var policies []*registrationv1.ValidatingAdmissionPolicy
		for n := first; n < min(first+batch, *count); n++ {
			r := rand.New(rand.NewPCG(*seed, uint64(n)))
			name := fmt.Sprintf("case-%d", n)
			o := randomOperation(r, name)
			if r.IntN(6) == 0 {
				o.verb, o.object, o.old, o.options = admission.Delete, nil, o.object, &metav1.DeleteOptions{}
			}
			p, b := randomValidating(r, name)
			w.validating, w.validatingBindings = append(w.validating, p), append(w.validatingBindings, b)
			operations, policies = append(operations, o), append(policies, p)
		}
		ours, plugin := w.ours(), w.theirsValidating(t)
		for i, o := range operations {
			want := upstream(t, plugin, o)
			seen.add(want, nil)
			compare(t, []any{policies[i], w.validatingBindings[i]}, o, keelson(t, ours.validating, &w.told, o), want)
			if t.Failed() {
				t.FailNow()
			}
		}
	}
	t.Log(seen)
}

func TestMutating(t *testing.T) {
	seen := tally{}
	for first := 0; first < *count; first += batch {
		w := newWorld(t)
		var operations []operation
		for n := first; n < min(first+batch, *count); n++ {
			r := rand.New(rand.NewPCG(*seed, uint64(n)))
			name := fmt.Sprintf("case-%d", n)
			operations = append(operations, randomOperation(r, name))
			p, b := randomMutating(r, name)
			w.mutating, w.mutatingBindings = append(w.mutating, p), append(w.mutatingBindings, b)
		}
		ours, plugin := w.ours(), w.theirsMutating(t)
		for i, o := range operations {
			want := upstream(t, plugin, o)
			seen.add(want, content(t, o.object))
			compare(t, []any{w.mutating[i], w.mutatingBindings[i]}, o, keelson(t, ours.mutating, &w.told, o), want)
			if t.Failed() {
				t.FailNow()
			}
		}
	}
	t.Log(seen)
}
