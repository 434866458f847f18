package serviceaccount

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/admission"
)

// checkMirror refuses references that a mirror pod may not have.
func checkMirror(r *admission.Request, pod *corev1.Pod) error {
	if pod.Spec.ServiceAccountName != "" {
		return admission.Forbidden(r, "a mirror pod may not reference service accounts")
	}
	if usesSecrets(&pod.Spec) {
		return admission.Forbidden(r, "a mirror pod may not reference secrets")
	}
	for i := range pod.Spec.Volumes {
		if projected := pod.Spec.Volumes[i].Projected; projected != nil {
			for _, source := range projected.Sources {
				if source.ServiceAccountToken != nil {
					return admission.Forbidden(r, "a mirror pod may not use ServiceAccountToken volume projections")
				}
			}
		}
	}
	return nil
}

// usesSecrets reports whether a pod refers to any secret.
func usesSecrets(spec *corev1.PodSpec) bool {
	for _, s := range spec.ImagePullSecrets {
		if s.Name != "" {
			return true
		}
	}
	for i := range spec.InitContainers {
		if envUsesSecrets(&spec.InitContainers[i]) {
			return true
		}
	}
	for i := range spec.Containers {
		if envUsesSecrets(&spec.Containers[i]) {
			return true
		}
	}
	for i := range spec.EphemeralContainers {
		if envUsesSecrets((*corev1.Container)(&spec.EphemeralContainers[i].EphemeralContainerCommon)) {
			return true
		}
	}
	for i := range spec.Volumes {
		if volumeUsesSecrets(&spec.Volumes[i].VolumeSource) {
			return true
		}
	}
	return false
}

func envUsesSecrets(c *corev1.Container) bool {
	for _, e := range c.EnvFrom {
		if e.SecretRef != nil && e.SecretRef.Name != "" {
			return true
		}
	}
	for _, e := range c.Env {
		if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil && e.ValueFrom.SecretKeyRef.Name != "" {
			return true
		}
	}
	return false
}

func volumeUsesSecrets(v *corev1.VolumeSource) bool {
	switch {
	case v.AzureFile != nil:
		return v.AzureFile.SecretName != ""
	case v.CephFS != nil:
		return named(v.CephFS.SecretRef)
	case v.Cinder != nil:
		return named(v.Cinder.SecretRef)
	case v.FlexVolume != nil:
		return named(v.FlexVolume.SecretRef)
	case v.Projected != nil:
		for _, s := range v.Projected.Sources {
			if s.Secret != nil && s.Secret.Name != "" {
				return true
			}
		}
		return false
	case v.RBD != nil:
		return named(v.RBD.SecretRef)
	case v.Secret != nil:
		return v.Secret.SecretName != ""
	case v.ScaleIO != nil:
		return named(v.ScaleIO.SecretRef)
	case v.ISCSI != nil:
		return named(v.ISCSI.SecretRef)
	case v.StorageOS != nil:
		return named(v.StorageOS.SecretRef)
	case v.CSI != nil:
		return named(v.CSI.NodePublishSecretRef)
	}
	return false
}

func named(ref *corev1.LocalObjectReference) bool { return ref != nil && ref.Name != "" }
