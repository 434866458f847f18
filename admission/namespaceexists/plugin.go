package namespaceexists

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/admission"
)

// Name is the plugin's name.
const Name = "NamespaceExists"

// Namespaces is the cache that the plugin reads; an informer of namespaces is one.
type Namespaces interface {
	// Get returns the namespace of that name; the first argument is empty.
	Get(namespace, name string) (*corev1.Namespace, bool)
}

// Plugin is the admission plugin. Make one with New.
type Plugin struct{ namespaces Namespaces }

var _ admission.Validator = (*Plugin)(nil)

// New returns the plugin.
func New(namespaces Namespaces) *Plugin { return &Plugin{namespaces} }

// Name implements admission.Plugin.
func (*Plugin) Name() string { return Name }

// Handles implements admission.Plugin.
func (*Plugin) Handles(op admission.Operation) bool { return op != admission.Connect }

// Validate implements admission.Validator.
func (p *Plugin) Validate(_ context.Context, r *admission.Request) error {
	if r.Namespace == "" || r.Kind.GroupKind() == (schema.GroupKind{Kind: "Namespace"}) {
		return nil
	}
	if _, ok := p.namespaces.Get("", r.Namespace); !ok {
		return admission.NotFound(schema.GroupResource{Resource: "namespaces"}, r.Namespace)
	}
	return nil
}
