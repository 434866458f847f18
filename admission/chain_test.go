package admission_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/admission"
)

// trace returns a mutator and a validator that write down that they ran.
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

func TestOrdered(t *testing.T) {
	var log []string
	var plugins []admission.Plugin
	for _, name := range []string{"ResourceQuota", "MutatingAdmissionPolicy", "MyOwn", "Priority", "Another", "AlwaysAdmit", "NamespaceLifecycle", "PodResizeValidator"} {
		m, _ := trace(name, &log, nil)
		plugins = append(plugins, m)
	}
	var got []string
	for _, p := range admission.Ordered(plugins...) {
		got = append(got, p.Name())
	}
	want := []string{"AlwaysAdmit", "NamespaceLifecycle", "Priority", "PodResizeValidator", "MyOwn", "Another", "MutatingAdmissionPolicy", "ResourceQuota"}
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

// TestChainEnds: no plugin is asked when nobody waits for the answer any more.
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

// TestNames: who is refused is called by the name in the request, else by its own.
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
	// Without a cause there is nothing but the sentinel to find.
	if list := admission.Forbidden(&admission.Request{}, "no").Unwrap(); len(list) != 1 || !errors.Is(list[0], admission.ErrForbidden) {
		t.Errorf("wraps %v", list)
	}
}
