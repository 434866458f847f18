package defaultingressclass

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/admission"
)

// Name is the plugin's name.
const Name = "DefaultIngressClass"

// annotation named an Ingress's class before the field did.
const annotation = "kubernetes.io/ingress.class"

// Classes is the cache that the plugin reads.
type Classes interface {
	// List returns all classes; the argument is empty. They are shared and must not be changed.
	List(namespace string) []*networkingv1.IngressClass
}

// Plugin is the admission plugin. Make one with New.
type Plugin struct{ classes Classes }

var _ admission.Mutator = (*Plugin)(nil)

// New returns the plugin.
func New(classes Classes) *Plugin { return &Plugin{classes} }

// Name implements admission.Plugin.
func (*Plugin) Name() string { return Name }

// Handles implements admission.Plugin.
func (*Plugin) Handles(op admission.Operation) bool { return op == admission.Create }

// Admit implements admission.Mutator.
func (p *Plugin) Admit(_ context.Context, r *admission.Request) error {
	if r.Resource.GroupResource() != (schema.GroupResource{Group: networkingv1.GroupName, Resource: "ingresses"}) || r.Subresource != "" {
		return nil
	}
	ingress, ok := r.Object.(*networkingv1.Ingress)
	if !ok {
		return admission.Internal(fmt.Errorf("Expected Ingress resource, got: %v", r.Kind)) //nolint:staticcheck // upstream's message
	}
	if _, has := ingress.Annotations[annotation]; has || ingress.Spec.IngressClassName != nil {
		return nil
	}
	if name := defaultName(p.classes.List("")); name != "" {
		ingress.Spec.IngressClassName = &name
	}
	return nil
}

// defaultName returns the name of the default class, or nothing if there is none.
func defaultName(classes []*networkingv1.IngressClass) string {
	marked := slices.DeleteFunc(slices.Clone(classes), func(class *networkingv1.IngressClass) bool {
		return class.Annotations[networkingv1.AnnotationIsDefaultIngressClass] != "true"
	})
	if len(marked) == 0 {
		return ""
	}
	return slices.MinFunc(marked, func(a, b *networkingv1.IngressClass) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	}).Name
}
