package legacyserviceaccounttokencleaner

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Labels of the API server on secrets.
const (
	lastUsed     = "kubernetes.io/legacy-token-last-used"
	invalidSince = "kubernetes.io/legacy-token-invalid-since"
)

// verdict is what happens to a secret.
type verdict int

const (
	keep   verdict = iota
	mark           // as invalid
	remove         // it
)

// world is what decides.
type world struct {
	before  time.Time // what was used then or later is kept
	account func(namespace, name string) (*corev1.ServiceAccount, bool)
	mounted func(namespace, name string) bool
}

func (w *world) judge(s *corev1.Secret) verdict {
	day := w.before.Format(time.DateOnly)
	if s.Type != corev1.SecretTypeServiceAccountToken || s.DeletionTimestamp != nil || !s.CreationTimestamp.Time.Before(w.before) {
		return keep
	}
	if used, ok := s.Labels[lastUsed]; ok {
		if _, err := time.Parse(time.DateOnly, used); err != nil || used >= day {
			return keep
		}
	}
	if !w.generated(s) || w.mounted(s.Namespace, s.Name) {
		return keep
	}
	since := s.Labels[invalidSince]
	if _, err := time.Parse(time.DateOnly, since); err != nil {
		return mark
	}
	if since >= day {
		return keep
	}
	return remove
}

// generated reports whether a secret was made for its account automatically: the account names it.
func (w *world) generated(s *corev1.Secret) bool {
	uid := types.UID(s.Annotations[corev1.ServiceAccountUIDKey])
	a, ok := w.account(s.Namespace, s.Annotations[corev1.ServiceAccountNameKey])
	return ok && (uid == "" || uid == a.UID) && slices.ContainsFunc(a.Secrets, func(r corev1.ObjectReference) bool { return r.Name == s.Name })
}

// uses reports whether a pod refers to a secret.
func uses(pod *corev1.Pod, name string) bool {
	for _, r := range pod.Spec.ImagePullSecrets {
		if r.Name == name {
			return true
		}
	}
	for i := range pod.Spec.InitContainers {
		if inContainer(pod.Spec.InitContainers[i].Env, pod.Spec.InitContainers[i].EnvFrom, name) {
			return true
		}
	}
	for i := range pod.Spec.Containers {
		if inContainer(pod.Spec.Containers[i].Env, pod.Spec.Containers[i].EnvFrom, name) {
			return true
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		if inContainer(pod.Spec.EphemeralContainers[i].Env, pod.Spec.EphemeralContainers[i].EnvFrom, name) {
			return true
		}
	}
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return inVolume(&v.VolumeSource, name) })
}

func inContainer(env []corev1.EnvVar, from []corev1.EnvFromSource, name string) bool {
	for i := range from {
		if r := from[i].SecretRef; r != nil && r.Name == name {
			return true
		}
	}
	for i := range env {
		if f := env[i].ValueFrom; f != nil && f.SecretKeyRef != nil && f.SecretKeyRef.Name == name {
			return true
		}
	}
	return false
}

func inVolume(v *corev1.VolumeSource, name string) bool {
	var refs []*corev1.LocalObjectReference
	switch {
	case v.AzureFile != nil:
		return v.AzureFile.SecretName == name
	case v.Secret != nil:
		return v.Secret.SecretName == name
	case v.Projected != nil:
		return slices.ContainsFunc(v.Projected.Sources, func(s corev1.VolumeProjection) bool { return s.Secret != nil && s.Secret.Name == name })
	case v.CephFS != nil:
		refs = append(refs, v.CephFS.SecretRef)
	case v.Cinder != nil:
		refs = append(refs, v.Cinder.SecretRef)
	case v.FlexVolume != nil:
		refs = append(refs, v.FlexVolume.SecretRef)
	case v.RBD != nil:
		refs = append(refs, v.RBD.SecretRef)
	case v.ScaleIO != nil:
		refs = append(refs, v.ScaleIO.SecretRef)
	case v.ISCSI != nil:
		refs = append(refs, v.ISCSI.SecretRef)
	case v.StorageOS != nil:
		refs = append(refs, v.StorageOS.SecretRef)
	case v.CSI != nil:
		refs = append(refs, v.CSI.NodePublishSecretRef)
	}
	return slices.ContainsFunc(refs, func(r *corev1.LocalObjectReference) bool { return r != nil && r.Name == name })
}
