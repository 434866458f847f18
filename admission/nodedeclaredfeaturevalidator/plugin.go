package nodedeclaredfeaturevalidator

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/internal/pods"
	"github.com/keelson-dev/keelson/podspec/features"
)

// Name is the plugin's name.
const Name = "NodeDeclaredFeatureValidator"

// Nodes is the cache that the plugin reads; an informer of nodes is one.
type Nodes interface {
	// Get returns the node of that name; the first argument is empty.
	Get(namespace, name string) (*corev1.Node, bool)
}

// Plugin is the admission plugin. Make one with New.
type Plugin struct{ nodes Nodes }

var _ admission.Validator = (*Plugin)(nil)

// New returns the plugin.
func New(nodes Nodes) *Plugin { return &Plugin{nodes} }

// Name implements admission.Plugin.
func (*Plugin) Name() string { return Name }

// Handles implements admission.Plugin.
func (*Plugin) Handles(op admission.Operation) bool { return op == admission.Update }

// Validate implements admission.Validator.
func (p *Plugin) Validate(_ context.Context, r *admission.Request) error {
	pod, old, err := pods.Changed(r, "", "resize")
	if pod == nil {
		return err
	}
	return p.check(r, pod, old)
}

func (p *Plugin) check(r *admission.Request, pod, old *corev1.Pod) error {
	needed := features.NeededForUpdate(&pod.Spec, &old.Spec)
	if len(needed) == 0 {
		return nil
	}
	node, ok := p.nodes.Get("", pod.Spec.NodeName)
	if !ok {
		return admission.Forbidden(r, "node %q not found", pod.Spec.NodeName)
	}
	lacking := slices.DeleteFunc(needed, func(feature string) bool { return slices.Contains(node.Status.DeclaredFeatures, feature) })
	if len(lacking) > 0 {
		return admission.Forbidden(r, "pod update requires features %s which are not available on node %q", strings.Join(lacking, ", "), node.Name)
	}
	return nil
}
