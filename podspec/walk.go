package podspec

import (
	"iter"

	corev1 "k8s.io/api/core/v1"
)

// httpGets yields the HTTP requests of a container's probes and hooks.
func httpGets(c *corev1.Container) iter.Seq[*corev1.HTTPGetAction] {
	return func(yield func(*corev1.HTTPGetAction) bool) {
		for p := range probes(c) {
			if p.HTTPGet != nil && !yield(p.HTTPGet) {
				return
			}
		}
		for h := range hooks(c) {
			if h.HTTPGet != nil && !yield(h.HTTPGet) {
				return
			}
		}
	}
}

// statuses yields the statuses of all containers of a pod.
func statuses(s *corev1.PodStatus) iter.Seq[*corev1.ContainerStatus] {
	return func(yield func(*corev1.ContainerStatus) bool) {
		for _, list := range [][]corev1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses, s.EphemeralContainerStatuses} {
			for i := range list {
				if !yield(&list[i]) {
					return
				}
			}
		}
	}
}

// volumeUsers yields the fields that name the owner of files in volumes written by the node.
func volumeUsers(spec *corev1.PodSpec) iter.Seq[**int64] {
	return func(yield func(**int64) bool) {
		for i := range spec.Volumes {
			for _, user := range usersOf(&spec.Volumes[i].VolumeSource) {
				if !yield(user) {
					return
				}
			}
		}
	}
}

func usersOf(s *corev1.VolumeSource) []**int64 {
	switch {
	case s.Secret != nil:
		return append(keyUsers(s.Secret.Items), &s.Secret.DefaultUser)
	case s.ConfigMap != nil:
		return append(keyUsers(s.ConfigMap.Items), &s.ConfigMap.DefaultUser)
	case s.DownwardAPI != nil:
		return append(fileUsers(s.DownwardAPI.Items), &s.DownwardAPI.DefaultUser)
	case s.Projected != nil:
		users := []**int64{&s.Projected.DefaultUser}
		for i := range s.Projected.Sources {
			users = append(users, projectionUsers(&s.Projected.Sources[i])...)
		}
		return users
	}
	return nil
}

func projectionUsers(s *corev1.VolumeProjection) []**int64 {
	switch {
	case s.Secret != nil:
		return keyUsers(s.Secret.Items)
	case s.DownwardAPI != nil:
		return fileUsers(s.DownwardAPI.Items)
	case s.ConfigMap != nil:
		return keyUsers(s.ConfigMap.Items)
	case s.ServiceAccountToken != nil:
		return []**int64{&s.ServiceAccountToken.User}
	case s.ClusterTrustBundle != nil:
		return []**int64{&s.ClusterTrustBundle.User}
	case s.PodCertificate != nil:
		return []**int64{&s.PodCertificate.User}
	}
	return nil
}

func keyUsers(items []corev1.KeyToPath) []**int64 {
	users := make([]**int64, 0, len(items)+1)
	for i := range items {
		users = append(users, &items[i].User)
	}
	return users
}

func fileUsers(items []corev1.DownwardAPIVolumeFile) []**int64 {
	users := make([]**int64, 0, len(items)+1)
	for i := range items {
		users = append(users, &items[i].User)
	}
	return users
}
