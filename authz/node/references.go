package node

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// usedBy returns what a pod lets its node read, without duplicates. A mirror pod lets it read nothing: nodes create
// those themselves.
func usedBy(p *corev1.Pod) []object {
	if _, mirror := p.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return nil
	}
	r := references{namespace: p.Namespace}
	r.add(serviceAccount, p.Spec.ServiceAccountName)
	for _, ref := range p.Spec.ImagePullSecrets {
		r.add(secret, ref.Name)
	}
	for i := range p.Spec.InitContainers {
		r.environment(p.Spec.InitContainers[i].EnvFrom, p.Spec.InitContainers[i].Env)
	}
	for i := range p.Spec.Containers {
		r.environment(p.Spec.Containers[i].EnvFrom, p.Spec.Containers[i].Env)
	}
	for i := range p.Spec.EphemeralContainers {
		r.environment(p.Spec.EphemeralContainers[i].EnvFrom, p.Spec.EphemeralContainers[i].Env)
	}
	for i := range p.Spec.Volumes {
		r.volume(p, &p.Spec.Volumes[i])
	}
	for i := range p.Spec.ResourceClaims {
		r.add(resourceClaim, claimName(p, &p.Spec.ResourceClaims[i]))
	}
	if s := p.Status.ExtendedResourceClaimStatus; s != nil {
		r.add(resourceClaim, s.ResourceClaimName)
	}
	return r.objects
}

type references struct {
	namespace string
	objects   []object
}

// add ignores empty names and duplicates.
func (r *references) add(k kind, name string) {
	if o := (object{k, r.namespace, name}); name != "" && !slices.Contains(r.objects, o) {
		r.objects = append(r.objects, o)
	}
}

func (r *references) environment(from []corev1.EnvFromSource, env []corev1.EnvVar) {
	for _, e := range from {
		if e.SecretRef != nil {
			r.add(secret, e.SecretRef.Name)
		}
		if e.ConfigMapRef != nil {
			r.add(configMap, e.ConfigMapRef.Name)
		}
	}
	for _, e := range env {
		if e.ValueFrom == nil {
			continue
		}
		if e.ValueFrom.SecretKeyRef != nil {
			r.add(secret, e.ValueFrom.SecretKeyRef.Name)
		}
		if e.ValueFrom.ConfigMapKeyRef != nil {
			r.add(configMap, e.ValueFrom.ConfigMapKeyRef.Name)
		}
	}
}

func (r *references) volume(p *corev1.Pod, v *corev1.Volume) {
	switch {
	case v.ConfigMap != nil:
		r.add(configMap, v.ConfigMap.Name)
	case v.PersistentVolumeClaim != nil:
		r.add(claim, v.PersistentVolumeClaim.ClaimName)
	case v.Ephemeral != nil:
		r.add(claim, p.Name+"-"+v.Name)
	case v.Secret != nil:
		r.add(secret, v.Secret.SecretName)
	case v.AzureFile != nil:
		r.add(secret, v.AzureFile.SecretName)
	case v.Projected != nil:
		for _, source := range v.Projected.Sources {
			if source.Secret != nil {
				r.add(secret, source.Secret.Name)
			}
			if source.ConfigMap != nil {
				r.add(configMap, source.ConfigMap.Name)
			}
		}
	default:
		if ref := secretRef(v); ref != nil {
			r.add(secret, ref.Name)
		}
	}
}

// secretRef returns the reference of volume types that have only one.
func secretRef(v *corev1.Volume) *corev1.LocalObjectReference {
	switch {
	case v.CephFS != nil:
		return v.CephFS.SecretRef
	case v.Cinder != nil:
		return v.Cinder.SecretRef
	case v.FlexVolume != nil:
		return v.FlexVolume.SecretRef
	case v.RBD != nil:
		return v.RBD.SecretRef
	case v.ScaleIO != nil:
		return v.ScaleIO.SecretRef
	case v.ISCSI != nil:
		return v.ISCSI.SecretRef
	case v.StorageOS != nil:
		return v.StorageOS.SecretRef
	case v.CSI != nil:
		return v.CSI.NodePublishSecretRef
	}
	return nil
}

// claimName returns the resource claim behind a pod's reference, which for a template is known only after the claim was
// created; empty if there is none.
func claimName(p *corev1.Pod, ref *corev1.PodResourceClaim) string {
	if ref.ResourceClaimName != nil {
		return *ref.ResourceClaimName
	}
	if ref.ResourceClaimTemplateName == nil {
		return ""
	}
	for _, status := range p.Status.ResourceClaimStatuses {
		if status.Name == ref.Name && status.ResourceClaimName != nil {
			return *status.ResourceClaimName
		}
	}
	return ""
}

// secretsOf returns the secrets that a kubelet needs to mount a volume: none before it is bound.
func secretsOf(v *corev1.PersistentVolume) []object {
	if v.Spec.ClaimRef == nil {
		return nil
	}
	var secrets []object
	add := func(namespace, name string) {
		if name != "" {
			secrets = append(secrets, object{secret, namespace, name})
		}
	}
	home := v.Spec.ClaimRef.Namespace
	if f := v.Spec.AzureFile; f != nil {
		if f.SecretNamespace != nil && *f.SecretNamespace != "" {
			home = *f.SecretNamespace
		}
		add(home, f.SecretName)
	}
	for _, ref := range localSecrets(v) {
		if ref != nil && ref.Namespace != "" {
			add(ref.Namespace, ref.Name)
		} else if ref != nil {
			add(home, ref.Name)
		}
	}
	if c := v.Spec.Cinder; c != nil && c.SecretRef != nil {
		add(c.SecretRef.Namespace, c.SecretRef.Name)
	}
	if s := v.Spec.StorageOS; s != nil && s.SecretRef != nil {
		add(s.SecretRef.Namespace, s.SecretRef.Name)
	}
	if c := v.Spec.CSI; c != nil {
		// The other two are for the controller of the volume.
		for _, ref := range []*corev1.SecretReference{c.NodePublishSecretRef, c.NodeStageSecretRef, c.NodeExpandSecretRef} {
			if ref != nil {
				add(ref.Namespace, ref.Name)
			}
		}
	}
	return secrets
}

// localSecrets returns the references that default to the claim's namespace.
func localSecrets(v *corev1.PersistentVolume) []*corev1.SecretReference {
	switch s := &v.Spec.PersistentVolumeSource; {
	case s.CephFS != nil:
		return []*corev1.SecretReference{s.CephFS.SecretRef}
	case s.FlexVolume != nil:
		return []*corev1.SecretReference{s.FlexVolume.SecretRef}
	case s.RBD != nil:
		return []*corev1.SecretReference{s.RBD.SecretRef}
	case s.ScaleIO != nil:
		return []*corev1.SecretReference{s.ScaleIO.SecretRef}
	case s.ISCSI != nil:
		return []*corev1.SecretReference{s.ISCSI.SecretRef}
	}
	return nil
}
