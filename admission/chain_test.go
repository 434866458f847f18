package admission_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/admission"
)

// trace returns a mutator and a validator that record their calls.
func trace(name string, log *[]string, err error, ops ...admission.Operation) (admission.Plugin, admission.Plugin) {
	m := admission.MutatorFunc(name, func(_ context.Context, r *admission.Request) error {
		*log = append(*log, "admit "+name)
		return err
	}, ops...)
	v := admission.ValidatorFunc(name, func(_ context.Context, r *admission.Request) error {
		*log = append(*log, "validate "+name)
		return err
	}, ops...)
	return m, v
}

func TestChain(t *testing.T) {
	broken := errors.New("broken")
	var log []string
	m1, v1 := trace("1", &log, nil, admission.Create)
	m2, v2 := trace("2", &log, nil, admission.Update)
	m3, v3 := trace("3", &log, broken, admission.Create, admission.Delete)
	m4, v4 := trace("4", &log, nil, admission.Create)
	chain := admission.Chain{v1, m1, m2, v2, m3, v3, m4, v4}
	for _, test := range []struct {
		op              admission.Operation
		admit, validate []string
		err             error
	}{
		{admission.Create, []string{"admit 1", "admit 3"}, []string{"validate 1", "validate 3"}, broken},
		{admission.Update, []string{"admit 2"}, []string{"validate 2"}, nil},
		{admission.Connect, nil, nil, nil},
	} {
		r := &admission.Request{Operation: test.op}
		log = nil
		if err := chain.Admit(t.Context(), r); !errors.Is(err, test.err) || !slices.Equal(log, test.admit) {
			t.Errorf("%s: Admit ran %q and returned %v", test.op, log, err)
		}
		log = nil
		if err := chain.Validate(t.Context(), r); !errors.Is(err, test.err) || !slices.Equal(log, test.validate) {
			t.Errorf("%s: Validate ran %q and returned %v", test.op, log, err)
		}
		if got, want := chain.Handles(test.op), test.admit != nil; got != want {
			t.Errorf("Handles(%s) = %v", test.op, got)
		}
	}
}

// reinvoker records its calls under a name, and leaves what it is given.
type reinvoker struct {
	admission.Mutator
	reinvocation admission.Reinvocation
	err          error
}

func (r reinvoker) AdmitFirst(ctx context.Context, q *admission.Request) (admission.Reinvocation, error) {
	if err := r.Admit(ctx, q); err != nil {
		return admission.Reinvocation{}, err
	}
	return r.reinvocation, r.err
}

// TestReinvocation: whichever plugin asks for it, all run again, once; what a plugin left takes the place of its Admit.
func TestReinvocation(t *testing.T) {
	broken := errors.New("broken")
	var log []string
	left := func(name string, needed bool, err error) admission.Reinvocation {
		return admission.Reinvocation{Needed: needed, Again: func(context.Context, *admission.Request) error {
			log = append(log, "again "+name)
			return err
		}}
	}
	for name, test := range map[string]struct {
		first, last admission.Reinvocation
		err         error // of the last plugin's first pass
		refused     error
		want        []string
	}{
		"nobody asks":      {left("1", false, nil), left("3", false, nil), nil, nil, []string{"admit 1", "admit 2", "admit 3"}},
		"the last asks":    {left("1", false, nil), left("3", true, nil), nil, nil, []string{"admit 1", "admit 2", "admit 3", "again 1", "admit 2", "again 3"}},
		"the first asks":   {left("1", true, nil), admission.Reinvocation{}, nil, nil, []string{"admit 1", "admit 2", "admit 3", "again 1", "admit 2", "admit 3"}},
		"refused at first": {left("1", true, nil), left("3", true, nil), broken, broken, []string{"admit 1", "admit 2", "admit 3"}},
		"refused again":    {left("1", true, broken), left("3", true, nil), nil, broken, []string{"admit 1", "admit 2", "admit 3", "again 1"}},
	} {
		m1, _ := trace("1", &log, nil, admission.Create)
		m2, _ := trace("2", &log, nil, admission.Create)
		m3, _ := trace("3", &log, nil, admission.Create)
		other, _ := trace("other", &log, nil, admission.Update)
		log = nil
		chain := admission.Chain{reinvoker{m1.(admission.Mutator), test.first, nil}, m2, reinvoker{m3.(admission.Mutator), test.last, test.err}, other}
		err := chain.Admit(t.Context(), &admission.Request{Operation: admission.Create})
		if !errors.Is(err, test.refused) || !slices.Equal(log, test.want) {
			t.Errorf("%s: ran %q and returned %v", name, log, err)
		}
	}
	// The second pass ends with the context, too.
	ctx, cancel := context.WithCancel(t.Context())
	m, _ := trace("1", &log, nil, admission.Create)
	last := admission.MutatorFunc("2", func(context.Context, *admission.Request) error { cancel(); return nil }, admission.Create)
	log = nil
	err := admission.Chain{reinvoker{m.(admission.Mutator), left("1", true, nil), nil}, last}.Admit(ctx, &admission.Request{Operation: admission.Create})
	if !errors.Is(err, context.Canceled) || !slices.Equal(log, []string{"admit 1"}) {
		t.Errorf("ran %q and returned %v", log, err)
	}
}

func TestOrdered(t *testing.T) {
	var log []string
	var plugins []admission.Plugin
	for _, name := range []string{"ResourceQuota", "Initializers", "MutatingAdmissionWebhook", "ValidatingAdmissionPolicy", "MutatingAdmissionPolicy", "MyOwn", "Priority", "Another", "AlwaysAdmit", "NamespaceLifecycle", "PodResizeValidator"} {
		m, _ := trace(name, &log, nil)
		plugins = append(plugins, m)
	}
	var got []string
	for _, p := range admission.Ordered(plugins...) {
		got = append(got, p.Name())
	}
	want := []string{"AlwaysAdmit", "NamespaceLifecycle", "Priority", "PodResizeValidator", "MyOwn", "Another", "MutatingAdmissionPolicy", "MutatingAdmissionWebhook", "Initializers", "ValidatingAdmissionPolicy", "ResourceQuota"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if plugins[0].Name() != "ResourceQuota" {
		t.Error("the argument was sorted")
	}
}

func TestUpstreamNames(t *testing.T) {
	all, on := admission.UpstreamOrder(), admission.UpstreamDefault()
	if len(all) != 39 || len(on) != 25 {
		t.Errorf("%d plugins, %d on by default", len(all), len(on))
	}
	at := -1
	for _, name := range on {
		next := slices.Index(all, name)
		if next <= at {
			t.Errorf("%s is out of order", name)
		}
		at = next
	}
	sorted := slices.Clone(all)
	slices.Sort(sorted)
	if len(slices.Compact(sorted)) != len(all) {
		t.Error("a name appears twice")
	}
}

func TestErrors(t *testing.T) {
	pods := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	deployments := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	cause := errors.New("why")
	generated := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "p-"}}
	for want, test := range map[string]struct {
		err      *admission.Error
		sentinel error
	}{
		`pods "p" is forbidden: no why`: {
			admission.Forbidden(&admission.Request{Resource: pods, Name: "p"}, "no %w", cause), admission.ErrForbidden},
		`pods "p-" is forbidden: no`: {
			admission.Forbidden(&admission.Request{Resource: pods, Object: generated}, "no"), admission.ErrForbidden},
		`deployments.apps "Unknown" is forbidden: no`: {
			admission.Forbidden(&admission.Request{Resource: deployments}, "no"), admission.ErrForbidden},
		`forbidden: no`:         {&admission.Error{Err: admission.ErrForbidden, Message: "no"}, admission.ErrForbidden},
		`pods is forbidden: no`: {&admission.Error{Err: admission.ErrForbidden, Resource: pods.GroupResource(), Message: "no"}, admission.ErrForbidden},
		`namespaces "x" not found`: {
			admission.NotFound(schema.GroupResource{Resource: "namespaces"}, "x"), admission.ErrNotFound},
		`Deployment.apps "d" is invalid: spec.x: Required value: please`: {
			admission.Invalid(&admission.Request{Resource: deployments, Kind: schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, Name: "d"},
				field.ErrorList{field.Required(field.NewPath("spec", "x"), "please")}), admission.ErrInvalid},
		`not a pod`:                    {admission.BadRequest("not a %s", "pod"), admission.ErrBadRequest},
		`Internal error occurred: why`: {admission.Internal(cause), admission.ErrInternal},
	} {
		if test.err.Error() != want {
			t.Errorf("%q, want %q", test.err.Error(), want)
		}
		if !errors.Is(test.err, test.sentinel) {
			t.Errorf("%q is not %v", want, test.sentinel)
		}
		if wraps := strings.Contains(want, "why"); errors.Is(test.err, cause) != wraps {
			t.Errorf("%q wraps its cause: %v", want, !wraps)
		}
	}
}

// TestChainEnds: no plugin is called after the context has ended.
func TestChainEnds(t *testing.T) {
	var log []string
	m, v := trace("1", &log, nil, admission.Create)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	chain, r := admission.Chain{m, v}, &admission.Request{Operation: admission.Create}
	if err := chain.Admit(ended, r); !errors.Is(err, context.Canceled) {
		t.Errorf("Admit: %v", err)
	}
	if err := chain.Validate(ended, r); !errors.Is(err, context.Canceled) || len(log) != 0 {
		t.Errorf("Validate: %v, ran %q", err, log)
	}
}

// TestNames: a refusal uses the name in the request, otherwise the object's own.
func TestNames(t *testing.T) {
	for want, r := range map[string]*admission.Request{
		"path":    {Name: "path", Object: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "own"}}},
		"own":     {Object: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "own", GenerateName: "own-"}}},
		"Unknown": {Object: &corev1.Pod{}},
	} {
		if got := admission.Forbidden(r, "no").Name; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	// Without a cause, only the sentinel can be found.
	if list := admission.Forbidden(&admission.Request{}, "no").Unwrap(); len(list) != 1 || !errors.Is(list[0], admission.ErrForbidden) {
		t.Errorf("wraps %v", list)
	}
}

// TestConvert: objects are converted to other versions only, and nothing stays nothing.
func TestConvert(t *testing.T) {
	pods, pod := corev1.SchemeGroupVersion.WithKind("Pod"), &corev1.Pod{}
	other := schema.GroupVersionKind{Version: "v0", Kind: "Pod"}
	converted := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "converted"}}
	convert := func(runtime.Object) (runtime.Object, error) { return converted, nil }
	r := &admission.Request{Kind: pods}
	for name, c := range map[string]struct {
		to        admission.Version
		obj, want runtime.Object
		fails     bool
	}{
		"the same":        {admission.Version{Kind: pods, FromStored: convert}, pod, pod, false},
		"nothing":         {admission.Version{Kind: other, FromStored: convert}, nil, nil, false},
		"another":         {admission.Version{Kind: other, FromStored: convert}, pod, converted, false},
		"an unknown kind": {admission.Version{Kind: other}, pod, nil, true},
	} {
		if got, err := c.to.Convert(r, c.obj); got != c.want || (err != nil) != c.fails {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}
