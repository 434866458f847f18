package namespaceautoprovision

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/admission"
)

// Name is the plugin's name.
const Name = "NamespaceAutoProvision"

// Namespaces is the cache that the plugin reads; an informer of namespaces is one.
type Namespaces interface {
	// Get returns the namespace of that name; the first argument is empty.
	Get(namespace, name string) (*corev1.Namespace, bool)
}

// Create creates a namespace. Its errors are those of k8s.io/apimachinery/pkg/api/errors.
type Create func(ctx context.Context, ns *corev1.Namespace) error

// Plugin is the admission plugin. Make one with New.
type Plugin struct {
	namespaces Namespaces
	create     Create
}

var _ admission.Mutator = (*Plugin)(nil)

// New returns the plugin. The namespaces are created with create's rights, not the user's.
func New(namespaces Namespaces, create Create) *Plugin { return &Plugin{namespaces, create} }

// Name implements admission.Plugin.
func (*Plugin) Name() string { return Name }

// Handles implements admission.Plugin.
func (*Plugin) Handles(op admission.Operation) bool { return op == admission.Create }

// Admit implements admission.Mutator. It leaves the object as it is; it is a Mutator so that NamespaceLifecycle, which comes next,
// finds the namespace.
func (p *Plugin) Admit(ctx context.Context, r *admission.Request) error {
	if r.DryRun || r.Namespace == "" || r.Kind.GroupKind() == (schema.GroupKind{Kind: "Namespace"}) {
		return nil
	}
	if _, ok := p.namespaces.Get("", r.Namespace); ok {
		return nil
	}
	err := p.create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: r.Namespace}})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return admission.Forbidden(r, "%w", err)
	}
	return nil
}
