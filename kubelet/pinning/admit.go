package pinning

import (
	"errors"
	"fmt"
	"iter"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/kubelet/pinning/cpus"
	"github.com/keelson-dev/keelson/kubelet/pinning/memory"
	"github.com/keelson-dev/keelson/kubelet/pinning/numa"
	"github.com/keelson-dev/keelson/podspec/qos"
)

// Reasons of refusals.
const (
	ReasonUnexpected = "UnexpectedAdmissionError"
	ReasonTopology   = "TopologyAffinityError"
	ReasonAlignment  = cpus.AlignmentReason
)

// Refusal says why a pod is not admitted.
type Refusal struct{ Reason, Message string } // of the pod's status

// Error implements error.
func (r *Refusal) Error() string { return r.Message }

// refused is the refusal because of an error.
func refused(err error) *Refusal {
	var alignment *cpus.AlignmentError
	if errors.As(err, &alignment) {
		return &Refusal{ReasonAlignment, err.Error()}
	}
	return &Refusal{ReasonUnexpected, fmt.Sprintf("Allocate failed due to %v, which is unexpected", err)}
}

// Admit gives the containers of a pod what they are to have to themselves. A pod that already has it, also from an earlier Allocator,
// keeps it.
func (a *Allocator) Admit(pod *corev1.Pod) *Refusal {
	a.mu.Lock()
	defer a.mu.Unlock()
	changed := a.takeBack(pod.UID)
	next, refusal := a.allocate(pod)
	if refusal == nil {
		changed = changed || next.count(pod.UID) != a.have.count(pod.UID)
		a.have = next
	}
	if changed {
		a.save()
	}
	return refusal
}

// Resume is Admit for a pod that an earlier kubelet has admitted, and that therefore is not refused.
func (a *Allocator) Resume(pod *corev1.Pod) {
	if r := a.Admit(pod); r != nil {
		a.log.Warn("an admitted pod has no CPUs or memory to itself", "pod", pod.Namespace+"/"+pod.Name, "reason", r.Reason, "error", r.Message)
	}
}

// decisions are what is given away.
type decisions struct {
	cpus   cpus.State
	memory memory.State
}

// count is how many of a pod's containers have something.
func (d decisions) count(uid types.UID) int { return len(d.cpus.Own[uid]) + len(d.memory.Own[uid]) }

// allocate decides about all containers of a pod. The lock is held.
func (a *Allocator) allocate(pod *corev1.Pod) (decisions, *Refusal) {
	d := a.have
	var best numa.Hint
	var admit bool
	if a.byPod {
		if best, admit = a.merge(d, pod, nil); !admit {
			return d, misplaced()
		}
	}
	for c := range containers(pod) {
		if !a.byPod {
			if best, admit = a.merge(d, pod, c); !admit {
				return d, misplaced()
			}
		}
		if err := a.give(&d, pod, c, best); err != nil {
			return d, refused(err)
		}
	}
	return d, nil
}

// give decides about one container.
func (a *Allocator) give(d *decisions, pod *corev1.Pod, c *corev1.Container, hint numa.Hint) (err error) {
	if a.policies.cpus != nil {
		if d.cpus, err = a.policies.cpus.Allocate(d.cpus, pod, c, hint.Nodes); err != nil {
			return err
		}
	}
	if a.policies.memory != nil {
		d.memory, err = a.policies.memory.Allocate(d.memory, pod, c, hint)
	}
	return err
}

func misplaced() *Refusal {
	return &Refusal{ReasonTopology, "Resources cannot be allocated with Topology locality"}
}

// merge decides where a container, or with nil a whole pod, is to be.
func (a *Allocator) merge(d decisions, pod *corev1.Pod, c *corev1.Container) (numa.Hint, bool) {
	if a.topology.Name() == numa.None {
		return a.topology.Merge()
	}
	var ofCPUs, ofMemory numa.Hints
	switch p := a.policies.cpus; {
	case p == nil:
	case c == nil:
		ofCPUs = p.PodHints(d.cpus, pod)
	default:
		ofCPUs = p.Hints(d.cpus, pod, c)
	}
	switch p := a.policies.memory; {
	case p == nil:
	case c == nil:
		ofMemory = p.PodHints(d.memory, pod)
	default:
		ofMemory = p.Hints(d.memory, pod, c)
	}
	return a.topology.Merge(ofCPUs, ofMemory)
}

// containers are the init containers and the containers of a pod.
func containers(pod *corev1.Pod) iter.Seq[*corev1.Container] {
	return func(yield func(*corev1.Container) bool) {
		for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
			for i := range list {
				if !yield(&list[i]) {
					return
				}
			}
		}
	}
}

// running are the IDs of the containers of a pod that run, with their names.
func running(pod *corev1.Pod) iter.Seq2[string, string] {
	return func(yield func(id, name string) bool) {
		for _, list := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
			for i := range list {
				_, id, _ := strings.Cut(list[i].ContainerID, "://")
				if list[i].State.Running != nil && id != "" && !yield(id, list[i].Name) {
					return
				}
			}
		}
	}
}

// AdmitResize refuses other requests of CPU or memory to a guaranteed pod, for good, if these are given to containers alone.
func (a *Allocator) AdmitResize(given, wanted *corev1.Pod) *Refusal {
	if qos.Class(wanted) != corev1.PodQOSGuaranteed {
		return nil
	}
	if a.policies.cpus != nil && requestsDiffer(given, wanted, corev1.ResourceCPU) {
		return &Refusal{corev1.PodReasonInfeasible, fmt.Sprintf("Resize is infeasible for Guaranteed Pods alongside CPU Manager policy %q", CPUsExclusive)}
	}
	if a.policies.memory != nil && requestsDiffer(given, wanted, corev1.ResourceMemory) {
		return &Refusal{corev1.PodReasonInfeasible, fmt.Sprintf("Resize is infeasible for Guaranteed Pods alongside Memory Manager policy %q", MemoryExclusive)}
	}
	return nil
}

// requestsDiffer reports whether containers of one state of a pod request more or less of a resource than those of another.
func requestsDiffer(a, b *corev1.Pod, name corev1.ResourceName) bool {
	requests := map[string]resource.Quantity{}
	for c := range containers(a) {
		requests[c.Name] = c.Resources.Requests[name]
	}
	for c := range containers(b) {
		if before, known := requests[c.Name]; known && !before.Equal(c.Resources.Requests[name]) {
			return true
		}
	}
	return false
}
