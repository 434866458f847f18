package apps

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/podspec"
	"github.com/keelson-dev/keelson/registry"
)

func statefulSets() registry.Kind {
	parts := statefulSetParts{registry.Parts[*appsv1.StatefulSet]{
		Spec:   registry.PartOf(func(s *appsv1.StatefulSet) *appsv1.StatefulSetSpec { return &s.Spec }),
		Status: registry.PartOf(func(s *appsv1.StatefulSet) *appsv1.StatefulSetStatus { return &s.Status }),
	}}
	return registry.Definition[*appsv1.StatefulSet]{
		Names: registry.Names{
			Kind: "StatefulSet", Plural: "statefulsets", Singular: "statefulset",
			Short: []string{"sts"}, Categories: []string{"all"},
		},
		GroupVersion: appsv1.SchemeGroupVersion,
		Namespaced:   true,
		New:          func() *appsv1.StatefulSet { return &appsv1.StatefulSet{} },
		NewList:      func() runtime.Object { return &appsv1.StatefulSetList{} },
		Rules: registry.Rules[*appsv1.StatefulSet]{
			Default:       defaultStatefulSet,
			PrepareCreate: parts.prepareCreate,
			PrepareUpdate: parts.prepareUpdate,
			Validate: func(s *appsv1.StatefulSet) field.ErrorList {
				return validateStatefulSet(&s.Spec, field.NewPath("spec"), leniency{})
			},
			ValidateUpdate: validateStatefulSetUpdate,
			ValidateName:   apivalidation.NameIsDNSLabel, // pods have it in their host names
		},
		Sub: registry.Subresources[*appsv1.StatefulSet]{
			Views: map[string]registry.View[*appsv1.StatefulSet]{"status": {
				PrepareUpdate: parts.PrepareStatus, ValidateUpdate: validateStatefulSetStatus,
			}},
			Scale: &registry.Scale[*appsv1.StatefulSet]{
				Spec: func(s *appsv1.StatefulSet) int32 { return valueOf(s.Spec.Replicas) },
				Status: func(s *appsv1.StatefulSet) (int32, string) {
					return s.Status.Replicas, scaleSelector(s.Spec.Selector)
				},
				Set: func(s *appsv1.StatefulSet, replicas int32) { s.Spec.Replicas = &replicas },
			},
		},
		Columns: statefulSetColumns(),
	}.Kind()
}

func defaultStatefulSet(s *appsv1.StatefulSet) {
	spec := &s.Spec
	if spec.PodManagementPolicy == "" {
		spec.PodManagementPolicy = appsv1.OrderedReadyPodManagement
	}
	defaultUpdateStrategy(&spec.UpdateStrategy)
	if spec.PersistentVolumeClaimRetentionPolicy == nil {
		spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{}
	}
	policy := spec.PersistentVolumeClaimRetentionPolicy
	if policy.WhenDeleted == "" {
		policy.WhenDeleted = appsv1.RetainPersistentVolumeClaimRetentionPolicyType
	}
	if policy.WhenScaled == "" {
		policy.WhenScaled = appsv1.RetainPersistentVolumeClaimRetentionPolicyType
	}
	if spec.Replicas == nil {
		spec.Replicas = new(int32(1))
	}
	if spec.RevisionHistoryLimit == nil {
		spec.RevisionHistoryLimit = new(int32(10))
	}
	podspec.Default(&spec.Template.Spec)
	for i := range spec.VolumeClaimTemplates {
		podspec.DefaultClaimTemplate(&spec.VolumeClaimTemplates[i])
	}
}

// defaultUpdateStrategy leaves a rolling update without parameters as it is if its type is given.
func defaultUpdateStrategy(s *appsv1.StatefulSetUpdateStrategy) {
	if s.Type == "" {
		s.Type = appsv1.RollingUpdateStatefulSetStrategyType
		if s.RollingUpdate == nil {
			s.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{}
		}
	}
	if s.RollingUpdate == nil {
		return
	}
	if s.RollingUpdate.Partition == nil {
		s.RollingUpdate.Partition = new(int32)
	}
	if s.Type == appsv1.RollingUpdateStatefulSetStrategyType && s.RollingUpdate.MaxUnavailable == nil {
		s.RollingUpdate.MaxUnavailable = new(intstr.FromInt32(1))
	}
}

type statefulSetParts struct {
	registry.Parts[*appsv1.StatefulSet]
}

func (p statefulSetParts) prepareCreate(ctx context.Context, s *appsv1.StatefulSet) {
	p.PrepareCreate(ctx, s)
	podspec.DropTemplate(&s.Spec.Template, nil)
	templates := field.NewPath("spec", "volumeClaimTemplates")
	for i := range s.Spec.VolumeClaimTemplates {
		warnClaim(ctx, &s.Spec.VolumeClaimTemplates[i].Spec, templates.Index(i))
	}
	warnHistory(ctx, s)
}

func (p statefulSetParts) prepareUpdate(ctx context.Context, s, old *appsv1.StatefulSet) {
	podspec.DropTemplate(&s.Spec.Template, &old.Spec.Template)
	p.PrepareUpdate(ctx, s, old)
	templates := field.NewPath("spec", "volumeClaimTemplates")
	for i := range s.Spec.VolumeClaimTemplates {
		// Upstream's path, which differs from that of a create.
		warnClaim(ctx, &s.Spec.VolumeClaimTemplates[i].Spec, templates.Index(i).Child("Spec"))
	}
	warnHistory(ctx, s)
}

func warnHistory(ctx context.Context, s *appsv1.StatefulSet) {
	if valueOf(s.Spec.RevisionHistoryLimit) < 0 {
		registry.Warn(ctx, "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended")
	}
}

// warnClaim warns of a size that is no whole number of bytes.
func warnClaim(ctx context.Context, s *corev1.PersistentVolumeClaimSpec, path *field.Path) {
	path = path.Child("resources")
	for _, of := range []struct {
		path *field.Path
		list corev1.ResourceList
	}{{path.Child("requests"), s.Resources.Requests}, {path.Child("limits"), s.Resources.Limits}} {
		size := of.list[corev1.ResourceStorage]
		if size.MilliValue()%1000 != 0 {
			registry.Warn(ctx, fmt.Sprintf("%s: fractional byte value %q is invalid, must be an integer",
				of.path.Key(corev1.ResourceStorage.String()), size.String()))
		}
	}
}
