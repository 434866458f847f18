package core

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/podspec"
	"github.com/keelson-dev/keelson/registry"
)

func persistentVolumes() registry.Kind {
	parts := registry.Parts[*corev1.PersistentVolume]{
		Spec:      registry.PartOf(func(pv *corev1.PersistentVolume) *corev1.PersistentVolumeSpec { return &pv.Spec }),
		Status:    registry.PartOf(func(pv *corev1.PersistentVolume) *corev1.PersistentVolumeStatus { return &pv.Status }),
		Uncounted: true,
	}
	return registry.Definition[*corev1.PersistentVolume]{
		Names: registry.Names{
			Kind: "PersistentVolume", Plural: "persistentvolumes", Singular: "persistentvolume", Short: []string{"pv"},
		},
		GroupVersion: corev1.SchemeGroupVersion,
		New:          func() *corev1.PersistentVolume { return &corev1.PersistentVolume{} },
		NewList:      func() runtime.Object { return &corev1.PersistentVolumeList{} },
		Rules: registry.Rules[*corev1.PersistentVolume]{
			Default: podspec.DefaultPersistentVolume,
			PrepareCreate: func(ctx context.Context, pv *corev1.PersistentVolume) {
				now := metav1.Now()
				pv.Status = corev1.PersistentVolumeStatus{Phase: corev1.VolumePending, LastPhaseTransitionTime: &now}
				warnPersistentVolume(ctx, pv)
			},
			PrepareUpdate: func(ctx context.Context, pv, old *corev1.PersistentVolume) {
				parts.PrepareUpdate(ctx, pv, old)
				warnPersistentVolume(ctx, pv)
			},
			Validate:       podspec.ValidatePersistentVolume,
			ValidateUpdate: podspec.ValidatePersistentVolumeUpdate,
			Deletion:       registry.Deletion[*corev1.PersistentVolume]{ReturnsObject: true},
		},
		Sub: registry.Subresources[*corev1.PersistentVolume]{Views: map[string]registry.View[*corev1.PersistentVolume]{"status": {
			PrepareUpdate: func(ctx context.Context, pv, old *corev1.PersistentVolume) {
				parts.PrepareStatus(ctx, pv, old)
				notePhase(&pv.Status, &old.Status)
			},
		}}},
		Columns: persistentVolumeColumns(),
	}.Kind()
}

// notePhase sets the time of the last change of the phase, unless the client has set it.
func notePhase(status, old *corev1.PersistentVolumeStatus) {
	at, before := status.LastPhaseTransitionTime, old.LastPhaseTransitionTime
	switch {
	case status.Phase == old.Phase && at == nil:
		status.LastPhaseTransitionTime = before.DeepCopy()
	case status.Phase != old.Phase && (at == nil || at.Equal(before)):
		now := metav1.Now()
		status.LastPhaseTransitionTime = &now
	}
}

func warnPersistentVolume(ctx context.Context, pv *corev1.PersistentVolume) {
	for _, old := range []struct{ annotation, instead string }{
		{corev1.BetaStorageClassAnnotation, `deprecated since v1.8; use "storageClassName" attribute instead`},
		{corev1.MountOptionAnnotation, `deprecated since v1.31; use "mountOptions" attribute instead`},
	} {
		if _, used := pv.Annotations[old.annotation]; used {
			registry.Warn(ctx, fmt.Sprintf("metadata.annotations[%s]: %s", old.annotation, old.instead))
		}
	}
	if pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRecycle {
		registry.Warn(ctx, "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.")
	}
	if a := pv.Spec.NodeAffinity; a != nil && a.Required != nil {
		warnNodeTerms(ctx, a.Required.NodeSelectorTerms, field.NewPath("spec", "nodeAffinity", "required", "nodeSelectorTerms"))
	}
	warnRemovedPlugins(ctx, &pv.Spec)
}

// warnNodeTerms warns of selecting nodes by labels that others replace.
func warnNodeTerms(ctx context.Context, terms []corev1.NodeSelectorTerm, p *field.Path) {
	deprecated := map[string]string{
		"beta.kubernetes.io/arch":                       `deprecated since v1.14; use "kubernetes.io/arch" instead`,
		"beta.kubernetes.io/os":                         `deprecated since v1.14; use "kubernetes.io/os" instead`,
		corev1.LabelFailureDomainBetaRegion:             `deprecated since v1.17; use "topology.kubernetes.io/region" instead`,
		corev1.LabelFailureDomainBetaZone:               `deprecated since v1.17; use "topology.kubernetes.io/zone" instead`,
		corev1.LabelInstanceType:                        `deprecated since v1.17; use "node.kubernetes.io/instance-type" instead`,
		"app.kubernetes.io/created-by":                  `deprecated since v1.9`,
		"scheduler.alpha.kubernetes.io/preferAvoidPods": `deprecated since v1.22; use Taints and Tolerations instead`,
		"node-role.kubernetes.io/master":                `use "node-role.kubernetes.io/control-plane" instead`,
	}
	for i, term := range terms {
		for j, e := range term.MatchExpressions {
			if message, found := deprecated[e.Key]; found {
				registry.Warn(ctx, fmt.Sprintf("%s: %s is %s", p.Index(i).Child("matchExpressions").Index(j).Child("key"), e.Key, message))
			}
		}
	}
}

func warnRemovedPlugins(ctx context.Context, spec *corev1.PersistentVolumeSpec) {
	for _, plugin := range []struct {
		used    bool
		message string
	}{
		{spec.CephFS != nil, "cephfs: deprecated in v1.28, non-functional in v1.31+"},
		{spec.PhotonPersistentDisk != nil, "photonPersistentDisk: deprecated in v1.11, non-functional in v1.16+"},
		{spec.ScaleIO != nil, "scaleIO: deprecated in v1.16, non-functional in v1.22+"},
		{spec.StorageOS != nil, "storageOS: deprecated in v1.22, non-functional in v1.25+"},
		{spec.Glusterfs != nil, "glusterfs: deprecated in v1.25, non-functional in v1.26+"},
		{spec.RBD != nil, "rbd: deprecated in v1.28, non-functional in v1.31+"},
	} {
		if plugin.used {
			registry.Warn(ctx, "spec."+plugin.message)
		}
	}
}
