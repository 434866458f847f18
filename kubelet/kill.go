package kubelet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/cri"
)

// killPod ends the pod's containers, side by side, and then its sandboxes. Sidecars end after the
// regular containers, the last one first (KEP-753).
func (w *worker) killPod(ctx context.Context, pod *corev1.Pod, o observation, grace int64) error {
	alive := o.running()
	turns := newTurns(pod, alive)
	errs := make([]error, len(alive))
	var group sync.WaitGroup
	for i, c := range alive {
		group.Go(func() {
			kill := killing{ID: c.ID, Name: c.Metadata.Name}
			waited := turns.wait(ctx, c.Metadata.Name, time.Duration(grace)*time.Second)
			errs[i] = w.killContainer(ctx, pod, kill, grace-int64(waited/time.Second))
			turns.over(c.Metadata.Name)
		})
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, s := range o.sandboxes {
		if s.State != cri.SandboxReady {
			continue
		}
		if err := w.k.runtime.StopPodSandbox(ctx, s.ID); err != nil && !errors.Is(err, cri.ErrNotFound) {
			return err
		}
	}
	return nil
}

// killContainer ends one container: its pre-stop hook, then a request, then force. Grace is in
// seconds and covers all of it.
func (w *worker) killContainer(ctx context.Context, pod *corev1.Pod, kill killing, grace int64) error {
	message := kill.Message
	if message == "" {
		message = "Stopping container " + kill.Name
	}
	w.k.containerEvent(subject{pod, kill.Name, kill.ID}, corev1.EventTypeNormal, "Killing", message)
	if c, _, ok := findContainer(pod, kill.Name); ok && grace > 0 {
		grace -= int64(w.preStop(ctx, pod, c, kill.ID, time.Duration(grace)*time.Second) / time.Second)
	}
	err := w.k.runtime.StopContainer(ctx, kill.ID, time.Duration(max(grace, minimumGrace))*time.Second)
	if err != nil && !errors.Is(err, cri.ErrNotFound) {
		return fmt.Errorf("stopping container %s: %w", kill.Name, err)
	}
	return nil
}

// containerGrace is how many seconds a container gets that ends while its pod goes on.
func (w *worker) containerGrace(pod *corev1.Pod, kill killing) int64 {
	c, _, ok := findContainer(pod, kill.Name)
	if ok && pod.DeletionGracePeriodSeconds == nil {
		probe := map[killReason]*corev1.Probe{killLiveness: c.LivenessProbe, killStartup: c.StartupProbe}[kill.Reason]
		if probe != nil && probe.TerminationGracePeriodSeconds != nil {
			return *probe.TerminationGracePeriodSeconds
		}
	}
	return gracePeriod(pod)
}

// turns makes the sidecars of a pod end in order.
type turns struct {
	after map[string][]string      // whose ends a container waits for
	ended map[string]chan struct{} // closed at a container's end
}

func newTurns(pod *corev1.Pod, alive []cri.ContainerStatus) *turns {
	t := &turns{after: map[string][]string{}, ended: map[string]chan struct{}{}}
	for _, c := range alive {
		t.ended[c.Metadata.Name] = make(chan struct{})
	}
	var before []string
	for _, c := range pod.Spec.Containers {
		before = append(before, c.Name)
	}
	for _, c := range slices.Backward(pod.Spec.InitContainers) {
		if isSidecar(&c) {
			t.after[c.Name] = slices.Clone(before)
			before = append(before, c.Name)
		}
	}
	return t
}

// wait waits until it is the container's turn, for no longer than the limit, and says how long.
func (t *turns) wait(ctx context.Context, name string, limit time.Duration) time.Duration {
	if len(t.after[name]) == 0 {
		return 0
	}
	start := time.Now()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for _, other := range t.after[name] {
		ended, alive := t.ended[other]
		if !alive {
			continue
		}
		select {
		case <-ended:
		case <-timer.C:
			return limit
		case <-ctx.Done():
			return time.Since(start)
		}
	}
	return time.Since(start)
}

// over tells those who wait that a container has ended, or that nothing more can be done about it.
func (t *turns) over(name string) { close(t.ended[name]) }
