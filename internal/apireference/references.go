// Package apireference finds the API objects that a pod refers to. Static pods and their mirrors must not refer to any.
package apireference

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// Of returns the first kind of API object that a pod refers to, in the order and words of upstream, or an empty string
// if there is none. It fails for volumes of unknown types.
func Of(pod *corev1.Pod) (string, error) {
	secrets, configMaps := environmentReferences(pod)
	for _, ref := range pod.Spec.ImagePullSecrets {
		secrets = secrets || ref.Name != ""
	}
	for i := range pod.Spec.Volumes {
		secrets = secrets || hasSecret(&pod.Spec.Volumes[i])
		configMaps = configMaps || hasConfigMap(&pod.Spec.Volumes[i])
	}
	switch {
	case pod.Spec.ServiceAccountName != "":
		return "serviceaccounts", nil
	case secrets:
		return "secrets", nil
	case configMaps:
		return "configmaps", nil
	case len(pod.Spec.ResourceClaims) > 0:
		return "resourceclaims", nil
	}
	for i := range pod.Spec.Volumes {
		if resource, err := volumeReference(&pod.Spec.Volumes[i]); resource != "" || err != nil {
			return resource, err
		}
	}
	return "", nil
}

// environmentReferences reports which kinds of objects the environments of a pod's containers refer to.
func environmentReferences(pod *corev1.Pod) (secrets, configMaps bool) {
	look := func(from []corev1.EnvFromSource, env []corev1.EnvVar) {
		for _, f := range from {
			secrets = secrets || f.SecretRef != nil && f.SecretRef.Name != ""
			configMaps = configMaps || f.ConfigMapRef != nil && f.ConfigMapRef.Name != ""
		}
		for _, e := range env {
			if e.ValueFrom == nil {
				continue
			}
			secrets = secrets || e.ValueFrom.SecretKeyRef != nil && e.ValueFrom.SecretKeyRef.Name != ""
			configMaps = configMaps || e.ValueFrom.ConfigMapKeyRef != nil && e.ValueFrom.ConfigMapKeyRef.Name != ""
		}
	}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			look(list[i].EnvFrom, list[i].Env)
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		look(pod.Spec.EphemeralContainers[i].EnvFrom, pod.Spec.EphemeralContainers[i].Env)
	}
	return secrets, configMaps
}

// hasSecret reports whether a volume names a secret.
func hasSecret(v *corev1.Volume) bool {
	local := func(ref *corev1.LocalObjectReference) bool { return ref != nil && ref.Name != "" }
	switch {
	case v.Secret != nil:
		return v.Secret.SecretName != ""
	case v.AzureFile != nil:
		return v.AzureFile.SecretName != ""
	case v.CephFS != nil:
		return local(v.CephFS.SecretRef)
	case v.Cinder != nil:
		return local(v.Cinder.SecretRef)
	case v.FlexVolume != nil:
		return local(v.FlexVolume.SecretRef)
	case v.RBD != nil:
		return local(v.RBD.SecretRef)
	case v.ScaleIO != nil:
		return local(v.ScaleIO.SecretRef)
	case v.ISCSI != nil:
		return local(v.ISCSI.SecretRef)
	case v.StorageOS != nil:
		return local(v.StorageOS.SecretRef)
	case v.CSI != nil:
		return local(v.CSI.NodePublishSecretRef)
	case v.Projected != nil:
		for _, s := range v.Projected.Sources {
			if s.Secret != nil && s.Secret.Name != "" {
				return true
			}
		}
	}
	return false
}

// hasConfigMap reports whether a volume names a config map.
func hasConfigMap(v *corev1.Volume) bool {
	if v.ConfigMap != nil {
		return v.ConfigMap.Name != ""
	}
	if v.Projected != nil {
		for _, s := range v.Projected.Sources {
			if s.ConfigMap != nil && s.ConfigMap.Name != "" {
				return true
			}
		}
	}
	return false
}

// volumeReference returns the kind of object that a volume of this type needs.
func volumeReference(v *corev1.Volume) (string, error) {
	switch {
	case v.ConfigMap != nil:
		return "configmaps (via configmap volumes)", nil
	case v.Secret != nil:
		return "secrets (via secret volumes)", nil
	case v.CSI != nil:
		return "csidrivers (via CSI volumes)", nil
	case v.Glusterfs != nil:
		return "endpoints (via glusterFS volumes)", nil
	case v.PersistentVolumeClaim != nil:
		return "persistentvolumeclaims", nil
	case v.Ephemeral != nil:
		return "persistentvolumeclaims (via ephemeral volumes)", nil
	case v.AzureFile != nil:
		return "secrets (via azureFile volumes)", nil
	case v.Projected != nil:
		return projectedReference(v)
	case v.VolumeSource == corev1.VolumeSource{}:
		return "", fmt.Errorf("unknown volume type for volume  %q", v.Name)
	default:
		return "", nil
	}
}

func projectedReference(v *corev1.Volume) (string, error) {
	for _, s := range v.Projected.Sources {
		switch {
		case s.ConfigMap != nil:
			return "configmaps (via projected volumes)", nil
		case s.Secret != nil:
			return "secrets (via projected volumes)", nil
		case s.ServiceAccountToken != nil:
			return "serviceaccounts (via projected volumes)", nil
		case s.ClusterTrustBundle != nil:
			return "clustertrustbundles", nil
		case s.PodCertificate != nil:
			return "podcertificates", nil
		case s.DownwardAPI == nil:
			return "", fmt.Errorf("unknown source for projected volume %q", v.Name)
		}
	}
	return "", nil
}
