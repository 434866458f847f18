package statefulset

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/controllers/internal/pods"
)

// replicas is the desired number of pods of the set; 1 if unset.
func replicas(set *appsv1.StatefulSet) int {
	if set.Spec.Replicas == nil {
		return 1
	}
	return int(*set.Spec.Replicas)
}

// start is the first ordinal of the set.
func start(set *appsv1.StatefulSet) int {
	if set.Spec.Ordinals == nil {
		return 0
	}
	return int(set.Spec.Ordinals.Start)
}

// partition is how many of the pods keep the current revision in a rolling update.
func partition(set *appsv1.StatefulSet) int {
	rolling := set.Spec.UpdateStrategy.RollingUpdate
	if rolling == nil || rolling.Partition == nil {
		return 0
	}
	return int(*rolling.Partition)
}

// identity returns the name of the set that a pod's name contains, and the ordinal, -1 if there is none.
func identity(pod string) (set string, ordinal int) {
	at := strings.LastIndexByte(pod, '-')
	if at < 0 || pod[at+1:] == "" || strings.Trim(pod[at+1:], "0123456789") != "" {
		return "", -1
	}
	n, err := strconv.ParseInt(pod[at+1:], 10, 32)
	if err != nil {
		return pod[:at], -1
	}
	return pod[:at], int(n)
}

func ordinal(pod *corev1.Pod) int {
	_, n := identity(pod.Name)
	return n
}

// isMember reports whether a pod of that name can be one of the set's.
func isMember(set *appsv1.StatefulSet, pod metav1.Object) bool {
	name, _ := identity(pod.GetName())
	return name == set.Name
}

func podName(set *appsv1.StatefulSet, ordinal int) string {
	return fmt.Sprintf("%s-%d", set.Name, ordinal)
}

// inRange reports whether the set has a place for the pod's ordinal.
func inRange(set *appsv1.StatefulSet, pod *corev1.Pod) bool {
	n := ordinal(pod)
	return n >= start(set) && n < start(set)+replicas(set)
}

func revisionOf(pod *corev1.Pod) string { return pod.Labels[appsv1.StatefulSetRevisionLabel] }

// exists reports whether the pod is one from the server, as opposed to one that is yet to be created.
func exists(pod *corev1.Pod) bool { return pod.Status.Phase != "" }

func runningAndReady(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodRunning && pods.Ready(pod)
}

// unavailable reports whether the pod is not available or about to go.
func unavailable(set *appsv1.StatefulSet, pod *corev1.Pod, now time.Time) bool {
	return pod.DeletionTimestamp != nil || !pods.Available(pod, set.Spec.MinReadySeconds, now)
}

// newPod returns the pod of an ordinal, at the revision that pods of that ordinal have.
func (w *world) newPod(ordinal int) *corev1.Pod {
	v := w.update
	if w.keepsCurrent(ordinal) {
		v = w.current
	}
	pod := pods.FromTemplate(v.template, w.set, *metav1.NewControllerRef(w.set, kind().GroupVersionKind))
	pod.Name = podName(w.set, ordinal)
	identify(w.set, pod)
	pod.Spec.Hostname, pod.Spec.Subdomain = pod.Name, w.set.Spec.ServiceName
	mountClaims(w.set, pod)
	pod.Labels[appsv1.StatefulSetRevisionLabel] = v.name
	return pod
}

// keepsCurrent reports whether a pod is created at the current revision while there is an update: below the partition,
// or, in a rolling update without parameters, below the number of pods that have not been updated.
func (w *world) keepsCurrent(ordinal int) bool {
	switch strategy := w.set.Spec.UpdateStrategy; {
	case strategy.RollingUpdate != nil:
		return ordinal < start(w.set)+partition(w.set)
	case strategy.Type == appsv1.RollingUpdateStatefulSetStrategyType:
		return ordinal < start(w.set)+int(w.set.Status.CurrentReplicas)
	}
	return false
}

// identified reports whether a pod of the set has the name and the label of its ordinal.
func identified(set *appsv1.StatefulSet, pod *corev1.Pod) bool {
	return pod.Name == podName(set, ordinal(pod)) && pod.Labels[appsv1.StatefulSetPodNameLabel] == pod.Name
}

// identify gives the pod the name and the labels of its ordinal.
func identify(set *appsv1.StatefulSet, pod *corev1.Pod) {
	n := ordinal(pod)
	pod.Name, pod.Namespace = podName(set, n), set.Namespace
	labels := map[string]string{}
	maps.Copy(labels, pod.Labels)
	labels[appsv1.StatefulSetPodNameLabel], labels[appsv1.PodIndexLabel] = pod.Name, strconv.Itoa(n)
	pod.Labels = labels
}

// mounted reports whether a pod of the set has its claims as volumes.
func mounted(set *appsv1.StatefulSet, pod *corev1.Pod) bool {
	n := ordinal(pod)
	byName := map[string]*corev1.Volume{}
	for i := range pod.Spec.Volumes {
		byName[pod.Spec.Volumes[i].Name] = &pod.Spec.Volumes[i]
	}
	for i := range set.Spec.VolumeClaimTemplates {
		template := &set.Spec.VolumeClaimTemplates[i]
		v := byName[template.Name]
		if v == nil || v.PersistentVolumeClaim == nil || v.PersistentVolumeClaim.ClaimName != claimName(set, template, n) {
			return false
		}
	}
	return true
}

// mountClaims makes the claims of the pod its volumes, in place of volumes with the same names.
func mountClaims(set *appsv1.StatefulSet, pod *corev1.Pod) {
	var volumes []corev1.Volume
	for _, claim := range claimsOf(set, pod) {
		volumes = append(volumes, corev1.Volume{Name: claim.template, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name},
		}})
	}
	claimed := len(volumes)
	for _, v := range pod.Spec.Volumes {
		if !slices.ContainsFunc(volumes[:claimed], func(c corev1.Volume) bool { return c.Name == v.Name }) {
			volumes = append(volumes, v)
		}
	}
	pod.Spec.Volumes = volumes
}
