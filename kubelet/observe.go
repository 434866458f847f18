package kubelet

import (
	"cmp"
	"context"
	"errors"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/cri"
)

// observation is what the runtime has for one pod, newest first.
type observation struct {
	sandboxes  []cri.SandboxStatus
	containers []cri.ContainerStatus
}

// observe asks the runtime about a pod. Only the newest sandbox comes with its addresses.
func observe(ctx context.Context, k *Kubelet, uid types.UID) (observation, error) {
	runtime := k.runtime
	filter := cri.Filter{Labels: map[string]string{cri.LabelPodUID: string(uid)}}
	sandboxes, err := runtime.ListSandboxes(ctx, filter)
	if err != nil {
		return observation{}, err
	}
	containers, err := runtime.ListContainers(ctx, filter)
	if err != nil {
		return observation{}, err
	}
	var o observation
	for _, s := range sandboxes {
		o.sandboxes = append(o.sandboxes, cri.SandboxStatus{Sandbox: s})
	}
	slices.SortStableFunc(o.sandboxes, func(a, b cri.SandboxStatus) int {
		return cmp.Or(cmp.Compare(b.Metadata.Attempt, a.Metadata.Attempt), b.CreatedAt.Compare(a.CreatedAt))
	})
	if len(o.sandboxes) > 0 {
		status, err := runtime.SandboxStatus(ctx, o.sandboxes[0].ID)
		if err != nil && !errors.Is(err, cri.ErrNotFound) {
			return observation{}, err
		}
		if err == nil {
			o.sandboxes[0] = status
		}
	}
	for _, c := range containers {
		status, err := runtime.ContainerStatus(ctx, c.ID)
		if errors.Is(err, cri.ErrNotFound) {
			continue
		}
		if err != nil {
			return observation{}, err
		}
		if status.State == cri.ContainerExited {
			status.Message = k.options.Host.Messages.Message(status)
		}
		o.containers = append(o.containers, status)
	}
	slices.SortStableFunc(o.containers, func(a, b cri.ContainerStatus) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(b.Metadata.Attempt, a.Metadata.Attempt))
	})
	return o, nil
}

func (o observation) equal(other observation) bool { return reflect.DeepEqual(o, other) }

// latest returns the newest container of that name, or nil.
func (o observation) latest(name string) *cri.ContainerStatus {
	for i := range o.containers {
		if o.containers[i].Metadata.Name == name {
			return &o.containers[i]
		}
	}
	return nil
}

// latestExited returns the newest container of that name that has exited, or nil.
func (o observation) latestExited(name string) *cri.ContainerStatus {
	for i := range o.containers {
		c := &o.containers[i]
		if c.Metadata.Name == name && c.State == cri.ContainerExited {
			return c
		}
	}
	return nil
}

// active returns the newest container of that name in the sandbox that is in use, or nil.
func (o observation) active(name string) *cri.ContainerStatus {
	sandbox := o.activeSandbox()
	if sandbox == nil {
		return nil
	}
	for i := range o.containers {
		if c := &o.containers[i]; c.Metadata.Name == name && c.SandboxID == sandbox.ID {
			return c
		}
	}
	return nil
}

// activeSandbox returns the newest sandbox if it is ready.
func (o observation) activeSandbox() *cri.SandboxStatus {
	if len(o.sandboxes) == 0 || o.sandboxes[0].State != cri.SandboxReady {
		return nil
	}
	return &o.sandboxes[0]
}

func isReady(s cri.SandboxStatus) bool { return s.State == cri.SandboxReady }

// running returns the containers that run, or may.
func (o observation) running() []cri.ContainerStatus {
	var list []cri.ContainerStatus
	for _, c := range o.containers {
		if c.State == cri.ContainerRunning || c.State == cri.ContainerUnknown {
			list = append(list, c)
		}
	}
	return list
}

// ips returns the addresses of the newest sandbox that is ready.
func (o observation) ips() []string {
	if s := o.activeSandbox(); s != nil {
		return s.IPs
	}
	return nil
}
