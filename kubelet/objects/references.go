package objects

import corev1 "k8s.io/api/core/v1"

// key names an object.
type key struct{ namespace, name string }

// references are the objects of one kind that a pod refers to; those with true are mounted as files, which must follow
// changes.
type references map[key]bool

func (r references) add(namespace, name string, asFile bool) {
	if name != "" {
		k := key{namespace, name}
		r[k] = r[k] || asFile
	}
}

// referencesOf finds what a pod refers to.
func referencesOf(pod *corev1.Pod) (configMaps, secrets references) {
	configMaps, secrets = references{}, references{}
	ns := pod.Namespace
	for _, s := range pod.Spec.ImagePullSecrets {
		secrets.add(ns, s.Name, false)
	}
	container := func(from []corev1.EnvFromSource, env []corev1.EnvVar) {
		for _, f := range from {
			if f.ConfigMapRef != nil {
				configMaps.add(ns, f.ConfigMapRef.Name, false)
			}
			if f.SecretRef != nil {
				secrets.add(ns, f.SecretRef.Name, false)
			}
		}
		for _, e := range env {
			if e.ValueFrom != nil && e.ValueFrom.ConfigMapKeyRef != nil {
				configMaps.add(ns, e.ValueFrom.ConfigMapKeyRef.Name, false)
			}
			if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
				secrets.add(ns, e.ValueFrom.SecretKeyRef.Name, false)
			}
		}
	}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			container(list[i].EnvFrom, list[i].Env)
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		container(pod.Spec.EphemeralContainers[i].EnvFrom, pod.Spec.EphemeralContainers[i].Env)
	}
	for i := range pod.Spec.Volumes {
		volumeReferences(ns, &pod.Spec.Volumes[i], configMaps, secrets)
	}
	return configMaps, secrets
}

func volumeReferences(ns string, v *corev1.Volume, configMaps, secrets references) {
	switch {
	case v.ConfigMap != nil:
		configMaps.add(ns, v.ConfigMap.Name, true)
	case v.Secret != nil:
		secrets.add(ns, v.Secret.SecretName, true)
	case v.Projected != nil:
		for _, s := range v.Projected.Sources {
			if s.ConfigMap != nil {
				configMaps.add(ns, s.ConfigMap.Name, true)
			}
			if s.Secret != nil {
				secrets.add(ns, s.Secret.Name, true)
			}
		}
	}
}
