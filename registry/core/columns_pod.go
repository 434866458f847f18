package core

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/podspec/restart"
	"github.com/keelson-dev/keelson/registry"
)

func podColumns() registry.Columns[*corev1.Pod] {
	spec, status := corev1.PodSpec{}.SwaggerDoc(), corev1.PodStatus{}.SwaggerDoc()
	return registry.Columns[*corev1.Pod]{
		Definitions: []metav1.TableColumnDefinition{
			registry.NameColumn(),
			registry.TextColumn("Ready", "The aggregate readiness state of this pod for accepting traffic."),
			registry.TextColumn("Status", "The aggregate status of the containers in this pod."),
			registry.TextColumn("Restarts", "The number of times the containers in this pod have been restarted and when the last container in this pod has restarted."),
			registry.AgeColumn(),
			registry.WideColumn("IP", status["podIP"]),
			registry.WideColumn("Node", spec["nodeName"]),
			registry.WideColumn("Nominated Node", status["nominatedNodeName"]),
			registry.WideColumn("Readiness Gates", spec["readinessGates"]),
		},
		Cells:      podCells,
		Conditions: podConditions,
	}
}

// podConditions marks pods that have ended.
func podConditions(pod *corev1.Pod) []metav1.TableRowCondition {
	var message string
	switch pod.Status.Phase {
	case corev1.PodSucceeded:
		message = "The pod has completed successfully."
	case corev1.PodFailed:
		message = "The pod failed."
	default:
		return nil
	}
	return []metav1.TableRowCondition{{
		Type: metav1.RowCompleted, Status: metav1.ConditionTrue, Reason: string(pod.Status.Phase), Message: message,
	}}
}

func podCells(pod *corev1.Pod, now time.Time) []any {
	const none = "<none>"
	s := summarize(pod)
	restarts := strconv.Itoa(s.restarts.count)
	if s.restarts.count != 0 && !s.restarts.last.IsZero() {
		restarts += " (" + registry.Age(s.restarts.last, now) + " ago)"
	}
	ip := "" // the defaults make podIP the first of these
	if len(pod.Status.PodIPs) > 0 {
		ip = pod.Status.PodIPs[0].IP
	}
	return []any{
		pod.Name, strconv.Itoa(s.ready) + "/" + strconv.Itoa(s.total), s.state, restarts,
		registry.Age(pod.CreationTimestamp, now),
		cmp.Or(ip, none), cmp.Or(pod.Spec.NodeName, none), cmp.Or(pod.Status.NominatedNodeName, none), readinessGates(pod),
	}
}

// readinessGates returns how many of the pod's readiness gates have passed.
func readinessGates(pod *corev1.Pod) string {
	if len(pod.Spec.ReadinessGates) == 0 {
		return "<none>"
	}
	open := 0
	for _, gate := range pod.Spec.ReadinessGates {
		if conditionTrue(pod, gate.ConditionType) {
			open++
		}
	}
	return fmt.Sprintf("%d/%d", open, len(pod.Spec.ReadinessGates))
}

// conditionTrue reports whether the first condition of a type is true.
func conditionTrue(pod *corev1.Pod, of corev1.PodConditionType) bool {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == of {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// summary describes a pod by its readiness, state and restarts.
type summary struct {
	ready, total int // containers, including sidecars
	state        string
	restarts     restarts
}

// restarts is the number of container restarts and the time of the last one.
type restarts struct {
	count int
	last  metav1.Time
}

func (r *restarts) add(c *corev1.ContainerStatus) {
	r.count += int(c.RestartCount)
	if t := c.LastTerminationState.Terminated; t != nil && r.last.Before(&t.FinishedAt) {
		r.last = t.FinishedAt
	}
}

// summarize finds what keeps the pod from running, or that it runs or has ended.
func summarize(pod *corev1.Pod) summary {
	s := summary{total: len(pod.Spec.Containers), state: cmp.Or(pod.Status.Reason, string(pod.Status.Phase))}
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonSchedulingGated {
			s.state = corev1.PodReasonSchedulingGated
		}
	}
	for i := range pod.Spec.InitContainers {
		if restart.Sidecar(&pod.Spec.InitContainers[i]) {
			s.total++
		}
	}
	initializing := s.initContainers(pod)
	if !initializing || conditionTrue(pod, corev1.PodInitialized) {
		s.containers(pod)
	}
	if pod.DeletionTimestamp != nil {
		switch {
		case pod.Status.Reason == "NodeLost":
			s.state = "Unknown"
		case pod.Status.Phase != corev1.PodFailed && pod.Status.Phase != corev1.PodSucceeded:
			s.state = "Terminating"
		}
	}
	return s
}

// initContainers finds the first unfinished init container and reports whether there is one. Once all have
// finished, only restarts of sidecars count.
func (s *summary) initContainers(pod *corev1.Pod) (initializing bool) {
	var all, sidecars restarts
	for i := range pod.Status.InitContainerStatuses {
		c := &pod.Status.InitContainerStatuses[i]
		all.add(c)
		sidecar := sidecarNamed(pod, c.Name)
		if sidecar {
			sidecars.add(c)
		}
		if t := c.State.Terminated; t != nil && t.ExitCode == 0 {
			continue
		}
		if sidecar && c.Started != nil && *c.Started {
			if c.Ready {
				s.ready++
			}
			continue
		}
		initializing = true
		s.state = initState(pod, i)
		break
	}
	s.restarts = sidecars
	if initializing && !conditionTrue(pod, corev1.PodInitialized) {
		s.restarts = all
	}
	return initializing
}

// initState returns why the pod's i-th init container is not finished.
func initState(pod *corev1.Pod, i int) string {
	c := &pod.Status.InitContainerStatuses[i].State
	switch {
	case c.Terminated != nil:
		return "Init:" + ended(c.Terminated)
	case c.Waiting != nil && c.Waiting.Reason != "" && c.Waiting.Reason != "PodInitializing":
		return "Init:" + c.Waiting.Reason
	}
	return fmt.Sprintf("Init:%d/%d", i, len(pod.Spec.InitContainers))
}

// ended returns why a container ended.
func ended(t *corev1.ContainerStateTerminated) string {
	switch {
	case t.Reason != "":
		return t.Reason
	case t.Signal != 0:
		return fmt.Sprintf("Signal:%d", t.Signal)
	}
	return fmt.Sprintf("ExitCode:%d", t.ExitCode)
}

// containers evaluates the main containers; the first one decides.
func (s *summary) containers(pod *corev1.Pod) {
	running, failed := false, ""
	for i := len(pod.Status.ContainerStatuses) - 1; i >= 0; i-- {
		c := &pod.Status.ContainerStatuses[i]
		s.restarts.add(c)
		switch t := c.State.Terminated; {
		case c.State.Waiting != nil && c.State.Waiting.Reason != "":
			s.state = c.State.Waiting.Reason
		case t != nil:
			s.state = ended(t)
			if t.ExitCode != 0 {
				failed = s.state
			}
		case c.Ready && c.State.Running != nil:
			running = true
			s.ready++
		}
	}
	if s.state != "Completed" {
		return
	}
	// Some have completed; the pod has only if none runs and none failed.
	switch {
	case running && anyReady(pod):
		s.state = "Running"
	case failed != "":
		s.state = failed
	case running:
		s.state = "NotReady"
	}
}

// anyReady reports whether a condition says that the pod is ready.
func anyReady(pod *corev1.Pod) bool {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}

// sidecarNamed reports whether the last init container of that name is a sidecar.
func sidecarNamed(pod *corev1.Pod, name string) bool {
	for i := len(pod.Spec.InitContainers) - 1; i >= 0; i-- {
		if c := &pod.Spec.InitContainers[i]; c.Name == name {
			return restart.Sidecar(c)
		}
	}
	return false
}
