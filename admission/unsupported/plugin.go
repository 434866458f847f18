package unsupported

import (
	"context"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/admission"
)

// Name is the plugin's name.
const Name = "UnsupportedFields"

// Plugin is the admission plugin. Make one with New.
type Plugin struct {
	warn func(ctx context.Context, text string)
}

var _ admission.Validator = (*Plugin)(nil)

// New returns the plugin. warn warns the client of the request in ctx; it is called from many goroutines.
func New(warn func(ctx context.Context, text string)) *Plugin { return &Plugin{warn} }

// Name implements admission.Plugin.
func (*Plugin) Name() string { return Name }

// Handles implements admission.Plugin.
func (*Plugin) Handles(op admission.Operation) bool {
	return op == admission.Create || op == admission.Update
}

// Validate implements admission.Validator. It warns once of each new preference.
func (p *Plugin) Validate(ctx context.Context, r *admission.Request) error {
	if r.Subresource != "" {
		return nil
	}
	var known []string
	if path, spec := specOf(r.OldObject); spec != nil {
		known = wishes(path, spec)
	}
	if path, spec := specOf(r.Object); spec != nil {
		for _, wish := range wishes(path, spec) {
			if !slices.Contains(known, wish) {
				p.warn(ctx, wish+": not supported, pods are placed regardless of it")
			}
		}
	}
	return nil
}

// wishes returns the preferences that nothing implements.
func wishes(path string, spec *corev1.PodSpec) []string {
	var fields []string
	if a := spec.Affinity; a != nil {
		if a.PodAffinity != nil && len(a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0 {
			fields = append(fields, path+".affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution")
		}
		if a.PodAntiAffinity != nil && len(a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0 {
			fields = append(fields, path+".affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution")
		}
	}
	if slices.ContainsFunc(spec.TopologySpreadConstraints, func(c corev1.TopologySpreadConstraint) bool {
		return c.WhenUnsatisfiable == corev1.ScheduleAnyway
	}) {
		fields = append(fields, path+".topologySpreadConstraints with whenUnsatisfiable ScheduleAnyway")
	}
	return fields
}

// specOf returns the pod spec in an object, and its path.
func specOf(object any) (path string, spec *corev1.PodSpec) {
	const template = "spec.template.spec"
	switch o := object.(type) {
	case *corev1.Pod:
		return "spec", &o.Spec
	case *corev1.PodTemplate:
		return "template.spec", &o.Template.Spec
	case *corev1.ReplicationController:
		if o.Spec.Template != nil {
			return template, &o.Spec.Template.Spec
		}
	case *appsv1.Deployment:
		return template, &o.Spec.Template.Spec
	case *appsv1.ReplicaSet:
		return template, &o.Spec.Template.Spec
	case *appsv1.StatefulSet:
		return template, &o.Spec.Template.Spec
	case *appsv1.DaemonSet:
		return template, &o.Spec.Template.Spec
	}
	return "", nil
}
