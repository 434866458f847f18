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
	"github.com/keelson-dev/keelson/kubelet/decision"
)

// killPod stops the pod's containers, concurrently except for those that must stop in order, and then its sandboxes.
func (w *worker) killPod(ctx context.Context, pod *corev1.Pod, a decision.Actions) error {
	order := newKillOrder(a.Kill)
	errs := make([]error, len(a.Kill))
	var group sync.WaitGroup
	for i, kill := range a.Kill {
		group.Go(func() {
			defer close(order.ended[i])
			kill.Grace -= int64(order.wait(ctx, i) / time.Second)
			errs[i] = w.killContainer(ctx, pod, kill)
		})
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, id := range a.StopSandboxes {
		if err := w.runtime.StopPodSandbox(ctx, id); err != nil && !errors.Is(err, cri.ErrNotFound) {
			return err
		}
	}
	return nil
}

// killContainer stops one container: its pre-stop hook, then a request, then force. The grace period covers all of it.
func (w *worker) killContainer(ctx context.Context, pod *corev1.Pod, kill decision.Kill) error {
	w.containerEvent(subject{pod, kill.Name, kill.ID}, corev1.EventTypeNormal, "Killing", kill.Message)
	grace := kill.Grace
	if c, _, ok := decision.Container(pod, kill.Name); ok && grace > 0 {
		grace -= int64(w.preStop(ctx, pod, c, kill.ID, time.Duration(grace)*time.Second) / time.Second)
	}
	err := w.runtime.StopContainer(ctx, kill.ID, time.Duration(max(grace, minimumGrace))*time.Second)
	if err != nil && !errors.Is(err, cri.ErrNotFound) {
		return fmt.Errorf("stopping container %s: %w", kill.Name, err)
	}
	return nil
}

// killOrder makes containers stop in order.
type killOrder struct {
	kills []decision.Kill
	ended []chan struct{} // one per container, closed when it has ended or cannot be stopped
}

func newKillOrder(kills []decision.Kill) killOrder {
	t := killOrder{kills, make([]chan struct{}, len(kills))}
	for i := range t.ended {
		t.ended[i] = make(chan struct{})
	}
	return t
}

// wait blocks until it is a container's turn, at most for its grace period, and returns how long it waited.
func (t killOrder) wait(ctx context.Context, i int) time.Duration {
	own := t.kills[i]
	if len(own.After) == 0 {
		return 0
	}
	start, limit := time.Now(), time.Duration(own.Grace)*time.Second
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for j, other := range t.kills {
		if !slices.Contains(own.After, other.Name) {
			continue
		}
		select {
		case <-t.ended[j]:
		case <-timer.C:
			return limit
		case <-ctx.Done():
			return time.Since(start)
		}
	}
	return time.Since(start)
}
