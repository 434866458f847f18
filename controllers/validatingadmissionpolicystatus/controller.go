// Package validatingadmissionpolicystatus is upstream's validatingadmissionpolicy-status-controller: it writes into the status
// of each ValidatingAdmissionPolicy what is wrong with the types of its expressions, and for which generation.
//
// What is wrong a [TypeChecker] says; package admission/policy/typecheck has one. Reconcile returns its errors and those of
// failed writes; they are retried. A Controller starts no goroutines and is safe for concurrent use by the workers of a Loop.
package validatingadmissionpolicystatus

import (
	"context"
	"encoding/json"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/informer"
)

// FieldManager owns the fields that the controller applies, under upstream's name.
const FieldManager = "validatingadmissionpolicy-status"

// TypeChecker returns what is wrong with the types of a policy's expressions; nil if nothing is. It must not change the policy.
type TypeChecker func(ctx context.Context, p *admissionv1.ValidatingAdmissionPolicy) ([]admissionv1.ExpressionWarning, error)

// Sources are what the controller reads.
type Sources struct {
	// Policies are all policies that validate.
	Policies *informer.Informer[*admissionv1.ValidatingAdmissionPolicy]
}

// Controller is the validatingadmissionpolicy-status-controller. Make one with New.
type Controller struct {
	in     Sources
	client client.Patcher
	check  TypeChecker
}

var _ controllers.Controller = (*Controller)(nil)

// New makes the controller.
func New(in Sources, c client.Patcher, check TypeChecker) *Controller {
	return &Controller{in: in, client: c, check: check}
}

// Name is "validatingadmissionpolicy-status-controller".
func (*Controller) Name() string { return "validatingadmissionpolicy-status-controller" }

// Watch enqueues new and changed policies.
func (c *Controller) Watch(q controllers.Queue) []controllers.Synced {
	add := func(p *admissionv1.ValidatingAdmissionPolicy) { q.Add(controllers.Key{Name: p.Name}) }
	c.in.Policies.AddHandler(informer.Handler[*admissionv1.ValidatingAdmissionPolicy]{
		Added: add, Updated: func(_, p *admissionv1.ValidatingAdmissionPolicy) { add(p) },
	})
	return []controllers.Synced{c.in.Policies}
}

// Reconcile checks a policy whose generation has not been observed.
func (c *Controller) Reconcile(ctx context.Context, key controllers.Key) (controllers.Result, error) {
	p, ok := c.in.Policies.Get("", key.Name)
	if !ok || p.Generation <= p.Status.ObservedGeneration {
		return controllers.Result{}, nil
	}
	warnings, err := c.check(ctx, p)
	if err != nil {
		return controllers.Result{}, err
	}
	data, err := json.Marshal(applied(p, warnings))
	if err != nil {
		return controllers.Result{}, err
	}
	at := client.Target{Resource: admissionv1.SchemeGroupVersion.WithResource("validatingadmissionpolicies"), Name: p.Name, Subresource: "status"}
	_, err = c.client.Patch(ctx, at, client.Patch{Type: types.ApplyPatchType, Data: data}, metav1.PatchOptions{FieldManager: FieldManager, Force: new(true)})
	if apierrors.IsNotFound(err) {
		err = nil
	}
	return controllers.Result{}, err
}

// configuration is what the controller applies. typeChecking is there even without warnings: it tells that types were checked.
type configuration struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Status struct {
		ObservedGeneration int64                    `json:"observedGeneration"`
		TypeChecking       admissionv1.TypeChecking `json:"typeChecking"`
	} `json:"status"`
}

func applied(p *admissionv1.ValidatingAdmissionPolicy, warnings []admissionv1.ExpressionWarning) configuration {
	out := configuration{TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "ValidatingAdmissionPolicy"}}
	out.Metadata.Name = p.Name
	out.Status.ObservedGeneration = p.Generation
	out.Status.TypeChecking.ExpressionWarnings = warnings
	return out
}
