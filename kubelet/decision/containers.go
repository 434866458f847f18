package decision

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Kind is the role of a container in its pod.
type Kind int

// The kinds of containers.
const (
	Regular Kind = iota
	Initial
	Ephemeral
)

// Containers returns the pod's containers of one kind. They are shared and must not be modified.
func Containers(pod *corev1.Pod, k Kind) []corev1.Container {
	switch k {
	case Initial:
		return pod.Spec.InitContainers
	case Ephemeral:
		list := make([]corev1.Container, len(pod.Spec.EphemeralContainers))
		for i := range list {
			list[i] = corev1.Container(pod.Spec.EphemeralContainers[i].EphemeralContainerCommon)
		}
		return list
	default:
		return pod.Spec.Containers
	}
}

// Container returns the container of that name, and its kind. It is shared and must not be modified.
func Container(pod *corev1.Pod, name string) (*corev1.Container, Kind, bool) {
	for i := range pod.Spec.Containers {
		if c := &pod.Spec.Containers[i]; c.Name == name {
			return c, Regular, true
		}
	}
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; c.Name == name {
			return c, Initial, true
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		if c := &pod.Spec.EphemeralContainers[i]; c.Name == name {
			return (*corev1.Container)(&c.EphemeralContainerCommon), Ephemeral, true
		}
	}
	return nil, 0, false
}

// AnnotationHash is the annotation of a container in the runtime that holds its Hash.
const AnnotationHash = "io.kubernetes.container.hash"

// Hash returns a hash of the parts of a container that cannot change while it runs.
func Hash(c *corev1.Container) string {
	data, _ := json.Marshal(map[string]string{"name": c.Name, "image": c.Image}) //nolint:errchkjson // strings marshal
	h := fnv.New32a()
	_, _ = h.Write(data)
	return strconv.FormatUint(uint64(h.Sum32()), 16)
}

// Terminal reports whether a pod in this phase has ended for good.
func Terminal(phase corev1.PodPhase) bool {
	return phase == corev1.PodFailed || phase == corev1.PodSucceeded
}

// Describe formats a pod for the kubelet's messages.
func Describe(pod *corev1.Pod) string {
	return fmt.Sprintf("%s_%s(%s)", pod.Name, pod.Namespace, pod.UID)
}

// InstanceID returns the runtime's ID of the container instance in a status.
func InstanceID(s *corev1.ContainerStatus) string {
	_, id, _ := strings.Cut(s.ContainerID, "://")
	return id
}

func findStatus(list []corev1.ContainerStatus, name string) *corev1.ContainerStatus {
	for i := range list {
		if list[i].Name == name {
			return &list[i]
		}
	}
	return nil
}
