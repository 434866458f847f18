package eviction

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	helpers "k8s.io/component-helpers/resource"
	"k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/keelson-dev/keelson/podspec/critical"
)

// Reason is the reason in the status of an evicted or rejected pod.
const Reason = "Evicted"

// immediately is the grace period, in seconds, of a pod that must end at once.
const immediately = 1

// Eviction describes the eviction of a pod: it fails with Reason and this message, and its containers are stopped.
type Eviction struct {
	Pod     *corev1.Pod
	Message string // for the status and the event
	// Grace is the maximum time, in seconds, that the pod's containers get to exit.
	Grace int64
	// Condition, if not nil, is added to the pod's conditions.
	Condition *corev1.PodCondition
	// Annotations are for the event.
	Annotations map[string]string
	// Signal is the label under which metrics count the eviction.
	Signal string
}

// Status changes the status of a pod to that of an evicted one.
func (e Eviction) Status(status *corev1.PodStatus) {
	status.Phase, status.Reason, status.Message = corev1.PodFailed, Reason, e.Message
	if e.Condition == nil {
		return
	}
	for i := range status.Conditions {
		if status.Conditions[i].Type == e.Condition.Type {
			status.Conditions[i] = *e.Condition
			return
		}
	}
	status.Conditions = append(status.Conditions, *e.Condition)
}

// Admit reports whether a node with these conditions accepts a pod; the message says why not.
func Admit(pod *corev1.Pod, conditions []corev1.NodeConditionType) (message string, ok bool) {
	if len(conditions) == 0 || critical.Pod(pod) {
		return "", true
	}
	if len(conditions) == 1 && conditions[0] == corev1.NodeMemoryPressure {
		if !bestEffort(pod) || toleratesMemoryPressure(pod) {
			return "", true
		}
	}
	return fmt.Sprintf("The node had condition: %v. ", conditions), false
}

// bestEffort reports whether a pod requests neither CPU nor memory.
func bestEffort(pod *corev1.Pod) bool {
	if pod.Status.QOSClass != "" {
		return pod.Status.QOSClass == corev1.PodQOSBestEffort
	}
	nothing := func(r corev1.ResourceRequirements) bool {
		return r.Requests.Cpu().IsZero() && r.Requests.Memory().IsZero() && r.Limits.Cpu().IsZero() && r.Limits.Memory().IsZero()
	}
	if pod.Spec.Resources != nil {
		return nothing(*pod.Spec.Resources)
	}
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			if !nothing(list[i].Resources) {
				return false
			}
		}
	}
	return true
}

func toleratesMemoryPressure(pod *corev1.Pod) bool {
	for _, t := range pod.Spec.Tolerations {
		if t.Effect != "" && t.Effect != corev1.TaintEffectNoSchedule || t.Key != "" && t.Key != corev1.TaintNodeMemoryPressure {
			continue
		}
		// The taint has no value; without a key only Exists tolerates.
		if t.Operator == corev1.TolerationOpExists ||
			t.Key != "" && (t.Operator == "" || t.Operator == corev1.TolerationOpEqual) && t.Value == "" {
			return true
		}
	}
	return false
}

// Evict returns the eviction of a pod because of a threshold. MaxGrace is its maximum grace period, in seconds, if the
// threshold is a soft one.
func Evict(pod *corev1.Pod, stats Stats, because Threshold, o Observations, maxGrace int64) Eviction {
	out := Eviction{Pod: pod, Grace: immediately, Signal: string(because.Signal)}
	if because.GracePeriod > 0 {
		out.Grace = maxGrace
		if own := pod.Spec.TerminationGracePeriodSeconds; own != nil {
			out.Grace = min(maxGrace, *own)
		}
	}
	out.Message, out.Annotations = Message(pod, stats[string(pod.UID)], because, o)
	out.Condition = &corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, ObservedGeneration: pod.Generation,
		Reason: corev1.PodReasonTerminationByKubelet, Message: out.Message,
	}
	return out
}

// Message says why a pod is evicted because of a threshold, with annotations for the event. The pod's
// stats may be nil.
func Message(pod *corev1.Pod, stats *v1alpha1.PodStats, because Threshold, o Observations) (string, map[string]string) {
	short := because.Signal.resource()
	annotations := map[string]string{}
	message := fmt.Sprintf("The node was low on resource: %s. ", short)
	if seen, ok := o[because.Signal]; ok {
		quantity := because.Value.of(seen.Capacity)
		message += fmt.Sprintf("Threshold quantity: %s, available: %s. ", quantity.String(), seen.Available.String())
	}
	if stats == nil {
		return message, annotations
	}
	if short == corev1.ResourceMemory && helpers.IsPodLevelResourcesSet(pod) {
		if request, ok := pod.Spec.Resources.Requests[short]; ok && stats.Memory != nil {
			used := workingSet(stats.Memory).String()
			message += fmt.Sprintf("Pod %s was using %s, request is %s, has larger consumption of %s. ", pod.Name, used, request.String(), short)
			annotations["offending_pod"], annotations["offending_pod_usage"] = pod.Name, used
		}
	}
	var names, uses []string
	for i := range stats.Containers {
		used := containerUse(&stats.Containers[i], short)
		request, ok := requestOf(pod, stats.Containers[i].Name, short)
		if used == nil || !ok || used.Cmp(request) <= 0 {
			continue
		}
		message += fmt.Sprintf("Container %s was using %s, request is %s, has larger consumption of %s. ",
			stats.Containers[i].Name, used.String(), request.String(), short)
		names, uses = append(names, stats.Containers[i].Name), append(uses, used.String())
	}
	annotations["offending_containers"], annotations["offending_containers_usage"] = strings.Join(names, ","), strings.Join(uses, ",")
	annotations["starved_resource"] = string(short)
	return message, annotations
}

// containerUse returns how much memory or storage a container uses; nil if unknown.
func containerUse(c *v1alpha1.ContainerStats, short corev1.ResourceName) *resource.Quantity {
	switch short {
	case corev1.ResourceEphemeralStorage:
		if c.Rootfs != nil && c.Rootfs.UsedBytes != nil && c.Logs != nil && c.Logs.UsedBytes != nil {
			return resource.NewQuantity(int64(*c.Rootfs.UsedBytes+*c.Logs.UsedBytes), resource.BinarySI)
		}
	case corev1.ResourceMemory:
		if c.Memory != nil && c.Memory.WorkingSetBytes != nil {
			return workingSet(c.Memory)
		}
	}
	return nil
}

// requestOf returns a container's request; ephemeral containers have none.
func requestOf(pod *corev1.Pod, container string, name corev1.ResourceName) (resource.Quantity, bool) {
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			if list[i].Name == container {
				return list[i].Resources.Requests[name], true
			}
		}
	}
	return resource.Quantity{}, false
}

// LocalStorage returns the eviction of a pod that exceeds the local storage limit of a volume, of the pod or of a
// container, or false.
func LocalStorage(pod *corev1.Pod, stats *v1alpha1.PodStats, l Layout) (Eviction, bool) {
	if stats == nil {
		return Eviction{}, false
	}
	evict := func(signal, format string, args ...any) (Eviction, bool) {
		return Eviction{Pod: pod, Grace: immediately, Signal: signal, Message: fmt.Sprintf(format, args...)}, true
	}
	for i := range pod.Spec.Volumes {
		dir := pod.Spec.Volumes[i].EmptyDir
		if dir == nil || dir.SizeLimit == nil || dir.SizeLimit.Sign() <= 0 {
			continue
		}
		for j := range stats.VolumeStats {
			v := &stats.VolumeStats[j]
			if v.Name == pod.Spec.Volumes[i].Name && bytesOf(&v.FsStats).Cmp(*dir.SizeLimit) > 0 {
				return evict("emptydirfs.limit", "Usage of EmptyDir volume %q exceeds the limit %q. ", v.Name, dir.SizeLimit.String())
			}
		}
	}
	limits := helpers.PodLimits(pod, helpers.PodResourcesOptions{})
	if limit, ok := limits[corev1.ResourceEphemeralStorage]; ok && bytesOf(stats.EphemeralStorage).Cmp(limit) > 0 {
		return evict("ephemeralpodfs.limit", "Pod ephemeral local storage usage exceeds the total limit of containers %s. ", limit.String())
	}
	for i := range stats.Containers {
		used := bytesOf(stats.Containers[i].Logs)
		if !l.DedicatedImages {
			used.Add(*bytesOf(stats.Containers[i].Rootfs))
		}
		for j := range pod.Spec.Containers {
			c := &pod.Spec.Containers[j]
			limit := c.Resources.Limits.StorageEphemeral()
			if c.Name == stats.Containers[i].Name && !limit.IsZero() && used.Cmp(*limit) > 0 {
				return evict("ephemeralcontainerfs.limit", "Container %s exceeded its local ephemeral storage limit %q. ", c.Name, limit.String())
			}
		}
	}
	return Eviction{}, false
}

func bytesOf(fs *v1alpha1.FsStats) *resource.Quantity {
	if fs == nil || fs.UsedBytes == nil {
		return &resource.Quantity{Format: resource.BinarySI}
	}
	return resource.NewQuantity(int64(*fs.UsedBytes), resource.BinarySI)
}

// Condition returns a condition for the node's status, without times, and the reason of the event for its change.
func Condition(t corev1.NodeConditionType, pressure bool) (condition corev1.NodeCondition, event string) {
	words := map[corev1.NodeConditionType][2][3]string{
		corev1.NodeMemoryPressure: {
			{"KubeletHasSufficientMemory", "kubelet has sufficient memory available", "NodeHasSufficientMemory"},
			{"KubeletHasInsufficientMemory", "kubelet has insufficient memory available", "NodeHasInsufficientMemory"},
		},
		corev1.NodeDiskPressure: {
			{"KubeletHasNoDiskPressure", "kubelet has no disk pressure", "NodeHasNoDiskPressure"},
			{"KubeletHasDiskPressure", "kubelet has disk pressure", "NodeHasDiskPressure"},
		},
		corev1.NodePIDPressure: {
			{"KubeletHasSufficientPID", "kubelet has sufficient PID available", "NodeHasSufficientPID"},
			{"KubeletHasInsufficientPID", "kubelet has insufficient PID available", "NodeHasInsufficientPID"},
		},
	}[t]
	status, w := corev1.ConditionFalse, words[0]
	if pressure {
		status, w = corev1.ConditionTrue, words[1]
	}
	return corev1.NodeCondition{Type: t, Status: status, Reason: w[0], Message: w[1]}, w[2]
}
