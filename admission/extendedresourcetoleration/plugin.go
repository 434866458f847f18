package extendedresourcetoleration

import (
	"context"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/keelson-dev/keelson/admission"
)

// Name is the plugin's name.
const Name = "ExtendedResourceToleration"

// Plugin is the admission plugin. Make one with New.
type Plugin struct{}

var _ admission.Mutator = (*Plugin)(nil)

// New returns the plugin.
func New() *Plugin { return &Plugin{} }

// Name implements admission.Plugin.
func (*Plugin) Name() string { return Name }

// Handles implements admission.Plugin.
func (*Plugin) Handles(op admission.Operation) bool {
	return op == admission.Create || op == admission.Update
}

// Admit implements admission.Mutator.
func (*Plugin) Admit(_ context.Context, r *admission.Request) error {
	if r.Resource.GroupResource() != (schema.GroupResource{Resource: "pods"}) || r.Subresource != "" {
		return nil
	}
	pod, ok := r.Object.(*corev1.Pod)
	if !ok {
		return admission.BadRequest("expected *core.Pod but got %T", r.Object)
	}
	requested := map[string]bool{}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		for name := range c.Resources.Requests {
			if extended(name) {
				requested[string(name)] = true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(requested)) {
		tolerate(&pod.Spec, corev1.Toleration{Key: name, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule})
	}
	return nil
}

// tolerate adds a toleration unless the pod has it. It takes the place of those that differ from it in the seconds only.
func tolerate(spec *corev1.PodSpec, t corev1.Toleration) {
	var places []int
	for i, had := range spec.Tolerations {
		if !t.MatchToleration(&had) {
			continue
		}
		if had.TolerationSeconds == nil {
			return
		}
		places = append(places, i)
	}
	if len(places) == 0 {
		spec.Tolerations = append(spec.Tolerations, t)
	}
	for _, i := range places {
		spec.Tolerations[i] = t
	}
}

// extended reports whether a resource belongs to none of Kubernetes' own domains, and could be counted by a quota.
func extended(name corev1.ResourceName) bool {
	s := string(name)
	return strings.Contains(s, "/") && !strings.Contains(s, corev1.ResourceDefaultNamespacePrefix) &&
		!strings.HasPrefix(s, corev1.DefaultResourceRequestsPrefix) && len(validation.IsQualifiedName(corev1.DefaultResourceRequestsPrefix+s)) == 0
}
