package kubelet

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/kubelet/decision"
)

// observe reads the pod's state from the runtime. Only the newest sandbox has its addresses.
func (w *worker) observe(ctx context.Context) (decision.Observation, error) {
	filter := cri.Filter{Labels: map[string]string{cri.LabelPodUID: string(w.uid)}}
	sandboxes, err := w.runtime.ListSandboxes(ctx, filter)
	if err != nil {
		return decision.Observation{}, err
	}
	containers, err := w.runtime.ListContainers(ctx, filter)
	if err != nil {
		return decision.Observation{}, err
	}
	var o decision.Observation
	for _, s := range sandboxes {
		o.Sandboxes = append(o.Sandboxes, cri.SandboxStatus{Sandbox: s})
	}
	slices.SortStableFunc(o.Sandboxes, func(a, b cri.SandboxStatus) int {
		return cmp.Or(cmp.Compare(b.Metadata.Attempt, a.Metadata.Attempt), b.CreatedAt.Compare(a.CreatedAt))
	})
	if len(o.Sandboxes) > 0 {
		status, err := w.runtime.SandboxStatus(ctx, o.Sandboxes[0].ID)
		if err != nil && !errors.Is(err, cri.ErrNotFound) {
			return decision.Observation{}, err
		}
		if err == nil {
			o.Sandboxes[0] = status
		}
	}
	for _, c := range containers {
		status, err := w.runtime.ContainerStatus(ctx, c.ID)
		if errors.Is(err, cri.ErrNotFound) {
			continue
		}
		if err != nil {
			return decision.Observation{}, err
		}
		if status.State == cri.ContainerExited {
			status.Message = w.host.Messages.Message(status)
		}
		o.Containers = append(o.Containers, status)
	}
	slices.SortStableFunc(o.Containers, func(a, b cri.ContainerStatus) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(b.Metadata.Attempt, a.Metadata.Attempt))
	})
	return o, nil
}
