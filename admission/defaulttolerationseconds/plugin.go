package defaulttolerationseconds

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/admission"
)

// Name is the plugin's name.
const Name = "DefaultTolerationSeconds"

// DefaultSeconds is how long a pod tolerates a failed node by default.
const DefaultSeconds int64 = 300

// Options are the options of the plugin. The zero value is valid.
type Options struct {
	// NotReadySeconds is how long a pod stays on a node that is not ready; nil means DefaultSeconds.
	NotReadySeconds *int64
	// UnreachableSeconds is how long a pod stays on an unreachable node; nil means DefaultSeconds.
	UnreachableSeconds *int64
}

// Plugin is the admission plugin. Make one with New.
type Plugin struct{ notReady, unreachable int64 }

var _ admission.Mutator = (*Plugin)(nil)

// New returns the plugin.
func New(options Options) *Plugin {
	p := &Plugin{notReady: DefaultSeconds, unreachable: DefaultSeconds}
	if s := options.NotReadySeconds; s != nil {
		p.notReady = *s
	}
	if s := options.UnreachableSeconds; s != nil {
		p.unreachable = *s
	}
	return p
}

// Name implements admission.Plugin.
func (*Plugin) Name() string { return Name }

// Handles implements admission.Plugin.
func (*Plugin) Handles(op admission.Operation) bool {
	return op == admission.Create || op == admission.Update
}

// Admit implements admission.Mutator.
func (p *Plugin) Admit(_ context.Context, r *admission.Request) error {
	if r.Resource.GroupResource() != (schema.GroupResource{Resource: "pods"}) || r.Subresource != "" {
		return nil
	}
	pod, ok := r.Object.(*corev1.Pod)
	if !ok {
		return admission.BadRequest("expected *v1.Pod but got %T", r.Object)
	}
	given := pod.Spec.Tolerations
	add := func(taint string, seconds int64) {
		if slices.ContainsFunc(given, func(t corev1.Toleration) bool { return speaksOf(t, taint) }) {
			return
		}
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{
			Key: taint, Operator: corev1.TolerationOpExists,
			Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds,
		})
	}
	add(corev1.TaintNodeNotReady, p.notReady)
	add(corev1.TaintNodeUnreachable, p.unreachable)
	return nil
}

// speaksOf reports whether a toleration covers evictions by the taint; empty fields cover all.
func speaksOf(t corev1.Toleration, taint string) bool {
	return (t.Key == taint || t.Key == "") && (t.Effect == corev1.TaintEffectNoExecute || t.Effect == "")
}
