package serviceaccount

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/admission"
)

const (
	// MountPath is where containers find their token, ca.crt and namespace.
	MountPath = "/var/run/secrets/kubernetes.io/serviceaccount"
	// VolumePrefix begins the name of the volume with these files.
	VolumePrefix = "kube-api-access-"
	// RootCA is the ConfigMap of each namespace that holds the cluster's CA certificate.
	RootCA = "kube-root-ca.crt"
	// tokenSeconds is upstream's mark of tokens that were mounted by default: an hour and 7 s.
	tokenSeconds int64 = 60*60 + 7
)

// mountToken mounts the token volume into every container that mounts nothing at its path.
func (p *Plugin) mountToken(r *admission.Request, pod *corev1.Pod) {
	at := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return strings.HasPrefix(v.Name, VolumePrefix) })
	var bare []*corev1.Container
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			if c := &containers[i]; !slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == MountPath }) {
				bare = append(bare, c)
			}
		}
	}
	if len(bare) == 0 {
		return
	}
	if at < 0 {
		base := pod.Name
		if base == "" {
			base = pod.GenerateName
		}
		name := VolumePrefix + p.options.Suffix("volumes", r.Namespace, base+"/"+VolumePrefix)
		at = len(pod.Spec.Volumes)
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{
			Name: name, VolumeSource: corev1.VolumeSource{Projected: TokenVolume()},
		})
	}
	for _, c := range bare {
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{
			Name: pod.Spec.Volumes[at].Name, ReadOnly: true, MountPath: MountPath,
		})
	}
}

// TokenVolume returns the files with which a pod accesses the API: a token for its account, the CA certificate,
// and the name of its namespace.
func TokenVolume() *corev1.ProjectedVolumeSource {
	mode, seconds := corev1.ProjectedVolumeSourceDefaultMode, tokenSeconds
	return &corev1.ProjectedVolumeSource{
		DefaultMode: &mode,
		Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: &seconds}},
			{ConfigMap: &corev1.ConfigMapProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: RootCA},
				Items:                []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
			}},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{
				Path:     "namespace",
				FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"},
			}}}},
		},
	}
}
