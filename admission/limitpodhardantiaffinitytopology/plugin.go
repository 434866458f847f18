package limitpodhardantiaffinitytopology

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/internal/pods"
)

// Name is the plugin's name.
const Name = "LimitPodHardAntiAffinityTopology"

// Plugin is the admission plugin. Make one with New.
type Plugin struct{}

var _ admission.Validator = (*Plugin)(nil)

// New returns the plugin.
func New() *Plugin { return &Plugin{} }

// Name implements admission.Plugin.
func (*Plugin) Name() string { return Name }

// Handles implements admission.Plugin.
func (*Plugin) Handles(op admission.Operation) bool {
	return op == admission.Create || op == admission.Update
}

// Validate implements admission.Validator.
func (*Plugin) Validate(_ context.Context, r *admission.Request) error {
	pod, err := pods.In(r)
	if pod == nil || pod.Spec.Affinity == nil || pod.Spec.Affinity.PodAntiAffinity == nil {
		return err
	}
	for _, term := range pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
		if term.TopologyKey != corev1.LabelHostname {
			refusal := admission.Forbidden(r, "affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey %v but only key %v is allowed",
				term.TopologyKey, corev1.LabelHostname)
			refusal.Name = pod.Name // upstream names no generateName here
			return refusal
		}
	}
	return nil
}
