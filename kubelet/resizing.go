package kubelet

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/kubelet/decision"
	"github.com/keelson-dev/keelson/podspec/qos"
)

// takeGrant notes that the pod was given other resources since the last sync, and which it had before.
func (w *worker) takeGrant(pod *corev1.Pod, before *decision.Allocation) {
	if before == nil {
		return
	}
	if w.resize.InForce == nil {
		w.resize.InForce = before
	}
	w.resize.Progress = decision.ResizeCondition(corev1.PodResizeInProgress, nil, decision.Waiting{}, pod.Generation, time.Now())
}

// followResize notes whether what the pod was given is in force.
func (w *worker) followResize(pod *corev1.Pod, o decision.Observation) {
	in := w.input(pod, o)
	switch resizing := decision.Resizing(in); {
	case resizing && w.resize.Progress == nil:
		w.resize.Progress = decision.ResizeCondition(corev1.PodResizeInProgress, nil, decision.Waiting{}, pod.Generation, time.Now())
	case !resizing && w.resize.Progress != nil:
		generation := w.resize.Progress.ObservedGeneration
		w.resize.Progress = nil
		w.resizeEvent(pod, corev1.EventTypeNormal, "ResizeCompleted", resizeSaid{"Pod resize completed", generation, ""})
	}
	if w.resize.InForce != nil && w.resize.Settled(pod) {
		w.resize.InForce = nil
		w.recordInForce()
	}
}

// inForce returns the pod with the resources that are in force. Halfway through a resize these may look like those of
// another class.
func (w *worker) inForce(pod *corev1.Pod) *corev1.Pod {
	if w.resize.InForce == nil {
		return pod
	}
	if set := w.resize.InForce.Apply(pod); qos.Class(set) == qos.Class(pod) {
		return set
	}
	return pod
}

// recordInForce leaves to the next kubelet what is in force.
func (w *worker) recordInForce() {
	if err := w.host.Memory.SetInForce(w.uid, w.resize.InForce); err != nil {
		w.log.Warn("the checkpoint of a resize was not written", "uid", w.uid, "error", err)
	}
}

// noteStart notes that a container was started with the resources that it was given.
func (w *worker) noteStart(pod *corev1.Pod, c *corev1.Container) {
	if w.resize.InForce == nil {
		return
	}
	if _, kind, _ := decision.Container(pod, c.Name); kind == decision.Ephemeral {
		return
	}
	next := w.resize.InForce.Clone()
	next.Started(pod, c)
	w.resize.InForce = &next
	w.recordInForce()
}

// resizePod puts the resources in force that the pod was given. It reports whether that succeeded.
func (w *worker) resizePod(ctx context.Context, pod *corev1.Pod, r decision.ResizeActions) bool {
	err := w.tryResize(ctx, pod, r)
	if err == nil {
		if w.resize.InForce != nil {
			next := w.resize.InForce.Clone()
			next.Pod = pod.Spec.Resources.DeepCopy()
			w.resize.InForce = &next
			w.recordInForce()
		}
		return true
	}
	if ctx.Err() != nil {
		return false
	}
	old, generation := w.resize.Progress, pod.Generation
	if old != nil {
		generation = old.ObservedGeneration
	}
	w.resize.Progress = decision.ResizeCondition(corev1.PodResizeInProgress, old, decision.Waiting{Reason: corev1.PodReasonError, Message: err.Error()}, generation, time.Now())
	if old == nil || old.Message != err.Error() {
		w.resizeEvent(pod, corev1.EventTypeWarning, "ResizeError", resizeSaid{"Pod resize error", generation, err.Error()})
	}
	w.lookAgain(time.Now().Add(retryPeriod))
	return false
}

// tryResize takes the steps of a resize until one fails.
func (w *worker) tryResize(ctx context.Context, pod *corev1.Pod, r decision.ResizeActions) error {
	now, want, err := w.host.Cgroups.Limits(ctx, pod)
	if err != nil {
		return fmt.Errorf("unable to get pod cgroup memory config for pod %q: %w", decision.Describe(pod), err)
	}
	if r.ShrinksMemory(now, want) {
		use, err := w.memoryUse(ctx)
		if err != nil {
			return fmt.Errorf("unable to read memory usage for pod %q", decision.Describe(pod))
		}
		if err := r.CheckMemory(now, want, use); err != nil {
			return err
		}
	}
	for _, step := range r.Steps(now, want) {
		if step.Container == nil {
			err = w.host.Cgroups.Limit(ctx, pod, step.Pod)
		} else {
			err = w.updateContainer(ctx, pod, step)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// updateContainer sets one resource of a running container.
func (w *worker) updateContainer(ctx context.Context, pod *corev1.Pod, step decision.ResizeStep) error {
	spec, _, known := decision.Container(pod, step.Container.Name)
	if !known || w.resizer == nil {
		return fmt.Errorf("container %s cannot be updated: %w", step.Container.Name, cri.ErrUnsupported)
	}
	c := spec.DeepCopy()
	c.Resources = step.Container.Set(step.Resource)
	resources := w.host.Cgroups.Resources(pod, c)
	resources.CPUs, resources.MemoryNodes = "", "" // who has pinned the container keeps it so
	if err := w.resizer.UpdateContainerResources(ctx, step.Container.ID, resources); err != nil {
		return err
	}
	inForce := decision.InForceBefore(pod)
	if w.resize.InForce != nil {
		inForce = w.resize.InForce.Clone()
	}
	inForce.Containers[c.Name] = c.Resources
	w.resize.InForce = &inForce
	w.recordInForce()
	return nil
}

// memoryUse reads how much memory the pod uses. A runtime that does not know tells of its containers.
func (w *worker) memoryUse(ctx context.Context) (decision.Usage, error) {
	use := decision.Usage{Containers: map[string]uint64{}}
	if w.stats == nil {
		return use, cri.ErrUnsupported
	}
	filter := cri.Filter{Labels: map[string]string{cri.LabelPodUID: string(w.uid)}}
	containers, err := w.stats.ListContainerStats(ctx, filter)
	if err != nil {
		return use, err
	}
	sum := uint64(0)
	for _, c := range containers {
		if !c.Memory.At.IsZero() {
			use.Containers[c.Metadata.Name] = c.Memory.Usage
			sum += c.Memory.Usage
		}
	}
	sandboxes, err := w.stats.ListSandboxStats(ctx, filter)
	if err != nil && !errors.Is(err, cri.ErrUnsupported) {
		return use, err
	}
	for _, s := range sandboxes {
		use.Pod += s.Memory.Usage
	}
	use.Pod = max(use.Pod, sum)
	return use, nil
}
