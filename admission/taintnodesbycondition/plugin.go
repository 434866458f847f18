package taintnodesbycondition

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/admission"
)

// Name is the plugin's name.
const Name = "TaintNodesByCondition"

// Plugin is the admission plugin. Make one with New.
type Plugin struct{}

var _ admission.Mutator = (*Plugin)(nil)

// New returns the plugin.
func New() *Plugin { return &Plugin{} }

// Name implements admission.Plugin.
func (*Plugin) Name() string { return Name }

// Handles implements admission.Plugin.
func (*Plugin) Handles(op admission.Operation) bool { return op == admission.Create }

// Admit implements admission.Mutator.
func (*Plugin) Admit(_ context.Context, r *admission.Request) error {
	if r.Resource.GroupResource() != (schema.GroupResource{Resource: "nodes"}) || r.Subresource != "" {
		return nil
	}
	node, ok := r.Object.(*corev1.Node)
	if !ok {
		return admission.Forbidden(r, "unexpected type %T", r.Object)
	}
	taint := corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}
	if !slices.ContainsFunc(node.Spec.Taints, func(had corev1.Taint) bool { return had.MatchTaint(&taint) }) {
		node.Spec.Taints = append(node.Spec.Taints, taint)
	}
	return nil
}
