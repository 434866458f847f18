package admissiontest

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/admission"
)

// Run passes the request through the plugin as an API server would: the mutator, if the plugin is one, then the
// validator. It returns the object as it would be stored, or the refusal, and fails the test if the plugin
// breaks its contract. Plugins that do not handle the operation are not called.
func Run(t testing.TB, p admission.Plugin, r *admission.Request) (runtime.Object, error) {
	t.Helper()
	after, breaches, err := run(t.Context(), p, r)
	for _, breach := range breaches {
		t.Error(breach)
	}
	return after, err
}

// run returns the results of Run, and how the contract was broken.
func run(ctx context.Context, p admission.Plugin, original *admission.Request) (after runtime.Object, breaches []string, err error) {
	r := clone(original)
	if !p.Handles(r.Operation) {
		return r.Object, nil, nil
	}
	untouched := func(by string) {
		if d := cmp.Diff(original.OldObject, r.OldObject); d != "" {
			breaches = append(breaches, by+" changed the old object (-before +after):\n"+d)
		}
	}
	if m, ok := p.(admission.Mutator); ok {
		if err := m.Admit(ctx, r); err != nil {
			return nil, breaches, err
		}
		untouched("Admit")
		again := clone(r)
		if err := m.Admit(ctx, again); err != nil {
			breaches = append(breaches, "Admit refuses what it made itself: "+err.Error())
		} else if d := cmp.Diff(r.Object, again.Object); d != "" {
			breaches = append(breaches, "Admit is not idempotent (-once +twice):\n"+d)
		}
	}
	if v, ok := p.(admission.Validator); ok {
		before := clone(r)
		err := v.Validate(ctx, r)
		if d := cmp.Diff(before.Object, r.Object); d != "" {
			breaches = append(breaches, "Validate changed the object (-before +after):\n"+d)
		}
		untouched("Validate")
		if err != nil {
			return nil, breaches, err
		}
	}
	return r.Object, breaches, nil
}

// Admits fails the test unless the plugin admits the request and its object becomes want.
func Admits(t testing.TB, p admission.Plugin, r *admission.Request, want runtime.Object) {
	t.Helper()
	got, err := Run(t, p, r)
	if err != nil {
		t.Errorf("refused: %v", err)
		return
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("admitted another object (-want +got):\n%s", d)
	}
}

// Refuses fails the test unless the plugin refuses the request with exactly this message. It returns the
// refusal, or nil if it is not an *admission.Error.
func Refuses(t testing.TB, p admission.Plugin, r *admission.Request, message string) *admission.Error {
	t.Helper()
	_, err := Run(t, p, r)
	if err == nil {
		t.Errorf("admitted, want refusal %q", message)
		return nil
	}
	if err.Error() != message {
		t.Errorf("refused with %q, want %q", err, message)
	}
	var refusal *admission.Error
	errors.As(err, &refusal)
	return refusal
}

// TestPlugin tests a plugin's contract: it has a name, mutates or validates, handles the given requests, and
// keeps for each of them the rules that Run checks. All requests also run concurrently, and each must have the
// same result as alone. Run it under the race detector.
func TestPlugin(t *testing.T, p admission.Plugin, requests ...*admission.Request) {
	t.Helper()
	if p.Name() == "" {
		t.Error("the plugin has no name")
	}
	_, mutates := p.(admission.Mutator)
	_, validates := p.(admission.Validator)
	if !mutates && !validates {
		t.Errorf("%s neither mutates nor validates", p.Name())
	}
	type outcome struct {
		object   runtime.Object
		refusal  string
		breaches []string
	}
	one := func(r *admission.Request) outcome {
		object, breaches, err := run(t.Context(), p, r)
		o := outcome{object: object, breaches: breaches}
		if err != nil {
			o.refusal = err.Error()
		}
		return o
	}
	alone := make([]outcome, len(requests))
	for i, r := range requests {
		if !p.Handles(r.Operation) {
			t.Errorf("request %d: %s does not handle %s", i, p.Name(), r.Operation)
		}
		alone[i] = one(r)
		for _, breach := range alone[i].breaches {
			t.Errorf("request %d: %s", i, breach)
		}
	}
	together := make([]outcome, len(requests))
	var wg sync.WaitGroup
	for i, r := range requests {
		wg.Go(func() { together[i] = one(r) })
	}
	wg.Wait()
	for i := range requests {
		if alone[i].refusal != together[i].refusal {
			t.Errorf("request %d: alone %q, among others %q", i, alone[i].refusal, together[i].refusal)
		}
		if d := cmp.Diff(alone[i].object, together[i].object); d != "" {
			t.Errorf("request %d is decided differently among others (-alone +together):\n%s", i, d)
		}
	}
}
