package validatingadmissionpolicystatus_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/validatingadmissionpolicystatus"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/registry/admissionregistration"
)

const (
	head = `{"kind":"ValidatingAdmissionPolicy","apiVersion":"admissionregistration.k8s.io/v1","metadata":{"name":"p"},"status":{"observedGeneration":`
	none = `,"typeChecking":{}}}`
)

// bench is a running controller with its API, in a bubble.
type bench struct {
	*testing.T
	api *controllerstest.API

	mu      sync.Mutex
	written []string
	fail    []error // of the next writes
	check   error
}

func start(t *testing.T, objects ...informer.Object) *bench {
	b := &bench{T: t, api: controllerstest.Start(t, controllerstest.Options{Kinds: admissionregistration.PolicyKinds(accepting()), Objects: objects})}
	in := validatingadmissionpolicystatus.Sources{Policies: informer.New(
		controllerstest.Source[*admissionv1.ValidatingAdmissionPolicy](b.api, admissionv1.SchemeGroupVersion.WithResource(resource())),
		informer.Options{DetectMutations: func(err error) { t.Error(err) }})}
	c := validatingadmissionpolicystatus.New(in, patcher(b.patch), func(context.Context, *admissionv1.ValidatingAdmissionPolicy) ([]admissionv1.ExpressionWarning, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		return nil, b.check
	})
	if c.Name() != "validatingadmissionpolicy-status-controller" {
		t.Errorf("named %s", c.Name())
	}
	controllerstest.Go(t, in.Policies, controllers.NewLoop(c, controllers.Options{}))
	return b
}

func (b *bench) patch(t client.Target, p client.Patch, o metav1.PatchOptions) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.written = append(b.written, string(p.Data))
	if t.Name != "p" || t.Subresource != "status" || p.Type != types.ApplyPatchType || o.FieldManager != "validatingadmissionpolicy-status" || !*o.Force {
		b.Errorf("patch %+v %s %+v", t, p.Type, o)
	}
	if len(b.fail) == 0 {
		return nil
	}
	err := b.fail[0]
	b.fail = b.fail[1:]
	return err
}

// wrote expects the bodies of the patches since the last call.
func (b *bench) wrote(want ...string) {
	b.Helper()
	time.Sleep(time.Minute)
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.Equal(b.written, want) {
		b.Errorf("wrote %q\nwant %q", b.written, want)
	}
	b.written = nil
}

func (b *bench) update(change func(p *admissionv1.ValidatingAdmissionPolicy), subresource string) {
	b.Helper()
	at := client.Target{Resource: admissionv1.SchemeGroupVersion.WithResource(resource()), Name: "p"}
	stored, err := b.api.Others.Get(b.Context(), at)
	if err != nil {
		b.Fatal(err)
	}
	p := stored.(*admissionv1.ValidatingAdmissionPolicy).DeepCopy()
	change(p)
	at.Subresource = subresource
	if _, err := b.api.Others.Update(b.Context(), at, p, metav1.UpdateOptions{}); err != nil {
		b.Fatal(err)
	}
}

func TestGenerations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, policy("p"))
		b.wrote(head + "1" + none)
		b.update(func(p *admissionv1.ValidatingAdmissionPolicy) { p.Status.ObservedGeneration = 1 }, "status")
		b.wrote()
		b.update(func(p *admissionv1.ValidatingAdmissionPolicy) { p.Labels = map[string]string{"a": "b"} }, "")
		b.wrote()
		b.update(func(p *admissionv1.ValidatingAdmissionPolicy) { p.Spec.Validations[0].Message = "m" }, "")
		b.wrote(head + "2" + none)
	})
}

// TestFailures: failed checks and writes are retried, but not for a policy that has gone.
func TestFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t)
		b.check, b.fail = errors.New("no schemas"), []error{errors.New("try again"), apierrors.NewNotFound(schema.GroupResource{}, "p")}
		controllerstest.Add(t, b.api, policy("p"))
		time.Sleep(time.Millisecond)
		b.mu.Lock()
		if len(b.written) > 0 {
			t.Errorf("wrote %q", b.written)
		}
		b.check = nil
		b.mu.Unlock()
		b.wrote(head+"1"+none, head+"1"+none)
	})
}

// TestGone: a policy that goes before it is its turn is not checked.
func TestGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := controllerstest.Start(t, controllerstest.Options{Kinds: admissionregistration.PolicyKinds(accepting())})
		in := validatingadmissionpolicystatus.Sources{Policies: informer.New(
			controllerstest.Source[*admissionv1.ValidatingAdmissionPolicy](api, admissionv1.SchemeGroupVersion.WithResource(resource())), informer.Options{})}
		controllerstest.Go(t, in.Policies)
		synctest.Wait()
		c := validatingadmissionpolicystatus.New(in, nil, nil)
		if result, err := c.Reconcile(t.Context(), controllers.Key{Name: "p"}); result != (controllers.Result{}) || err != nil {
			t.Errorf("%+v, %v", result, err)
		}
	})
}
