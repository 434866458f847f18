package deviceplugin

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	devices "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/keelson-dev/keelson/kubelet"
)

// refuse returns upstream's refusal of a pod.
func refuse(err error) *kubelet.Refusal {
	return &kubelet.Refusal{Reason: "UnexpectedAdmissionError", Message: fmt.Sprintf("Allocate failed due to %v, which is unexpected", err)}
}

// Admit reserves devices for a pod, in numbers. It has nothing to say about a pod that has been admitted.
func (p *Plugins) Admit(pod *corev1.Pod) *kubelet.Refusal {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pods[pod.UID] != nil {
		return nil
	}
	reserved, reuse := map[string]int{}, map[string]int{}
	for _, d := range demands(pod) {
		if !p.managed(d.resource) {
			continue
		}
		if err := p.usable(d.resource); err != nil {
			return refuse(err)
		}
		again := min(d.count, reuse[d.resource])
		needed := d.count - again
		if available := p.available(d.resource) - reserved[d.resource]; needed > available {
			return refuse(unavailable(d.resource, needed, available))
		}
		if needed > 0 {
			reserved[d.resource] += needed
		}
		if d.init && !d.sidecar {
			reuse[d.resource] = max(reuse[d.resource], d.count)
		} else {
			reuse[d.resource] -= again
		}
	}
	h := p.hold(pod.UID)
	h.admitted, h.reserved = true, reserved
	return nil
}

func unavailable(resource string, needed, available int) error {
	return fmt.Errorf("requested number of devices unavailable for %s. Requested: %d, Available: %d", resource, needed, max(available, 0))
}

// usable returns why no device of a resource can be allocated. The lock is held.
func (p *Plugins) usable(resource string) error {
	s := p.resources[resource]
	if s == nil || !s.listed {
		return fmt.Errorf("cannot allocate unregistered device %s", resource)
	}
	if len(s.healthy()) == 0 {
		return fmt.Errorf("no healthy devices present; cannot allocate unhealthy devices %s", resource)
	}
	return nil
}

// available is the number of devices that no pod has or has reserved. The lock is held.
func (p *Plugins) available(resource string) int {
	free := len(p.free(resource))
	for _, h := range p.pods {
		free -= h.reserved[resource]
	}
	return free
}

// free returns the healthy devices that no pod has. The lock is held.
func (p *Plugins) free(resource string) map[string]bool {
	free := map[string]bool{}
	if s := p.resources[resource]; s != nil {
		free = s.healthy()
	}
	for id := range p.used(resource) {
		delete(free, id)
	}
	return free
}

// Prepare allocates devices to the containers of a pod that this process has admitted, once: a pod that has its devices, or had
// them of an earlier kubelet, is not refused whatever becomes of the plugins.
func (p *Plugins) Prepare(ctx context.Context, pod *corev1.Pod) error {
	p.mu.Lock()
	h := p.pods[pod.UID]
	waits := h != nil && h.admitted && !h.prepared
	p.mu.Unlock()
	if !waits {
		return nil
	}
	err := p.allocate(ctx, pod, "")
	switch {
	case ctx.Err() != nil:
		return err
	case err != nil:
		return refuse(err)
	}
	p.mu.Lock()
	h.prepared = true
	p.mu.Unlock()
	return nil
}

// allocate allocates devices to one container of a pod, or to all.
func (p *Plugins) allocate(ctx context.Context, pod *corev1.Pod, container string) error {
	var wanted []demand
	p.mu.Lock()
	for _, d := range demands(pod) {
		if (container == "" || container == d.container && d.count > 0) && p.lacks(pod.UID, d) {
			wanted = append(wanted, d)
		}
	}
	p.mu.Unlock()
	if len(wanted) == 0 {
		return nil
	}
	unlock, err := p.turns.Lock(ctx, pod.UID)
	if err != nil {
		return err
	}
	defer unlock()
	for _, d := range wanted {
		if err := p.meet(ctx, pod, d); err != nil {
			return err
		}
	}
	return p.save()
}

// lacks reports whether a demand is not met yet. The lock is held.
func (p *Plugins) lacks(uid types.UID, d demand) bool {
	g := p.pods[uid].grant(d.container, d.resource)
	return p.managed(d.resource) && (g == nil || g.answer == nil)
}

// meet allocates devices of a resource to a container.
func (p *Plugins) meet(ctx context.Context, pod *corev1.Pod, d demand) error {
	g, from, err := p.choose(ctx, pod, d)
	if err != nil || g == nil {
		return err
	}
	answer, err := p.ask(ctx, from, g.ids)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		delete(p.hold(pod.UID).containers[d.container], d.resource)
		return err
	}
	g.answer = answer
	return nil
}

// ask has a plugin allocate devices to a container.
func (p *Plugins) ask(ctx context.Context, from *plugin, ids []string) (*devices.ContainerAllocateResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, p.options.Timeout)
	defer cancel()
	answer, err := from.client().Allocate(ctx, &devices.AllocateRequest{
		ContainerRequests: []*devices.ContainerAllocateRequest{{DevicesIds: ids}},
	})
	if err != nil {
		return nil, err
	}
	if len(answer.GetContainerResponses()) == 0 {
		return nil, fmt.Errorf("no containers return in allocation response %v", answer)
	}
	return answer.GetContainerResponses()[0], nil
}

// choose takes devices for a container: first those that init containers leave to it, then those that the plugin prefers.
func (p *Plugins) choose(ctx context.Context, pod *corev1.Pod, d demand) (*grant, *plugin, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.lacks(pod.UID, d) {
		return nil, nil, nil
	}
	if err := p.usable(d.resource); err != nil || d.count == 0 {
		return nil, nil, err
	}
	h := p.hold(pod.UID)
	again := reusable(pod, h, d)
	chosen := again[:min(len(again), d.count)]
	s := p.resources[d.resource]
	from := s.current
	if from == nil {
		return nil, nil, fmt.Errorf("unknown Device Plugin %s", d.resource)
	}
	if needed := d.count - len(chosen); needed > 0 {
		free := p.free(d.resource)
		if len(free) < needed {
			return nil, nil, unavailable(d.resource, needed, len(free))
		}
		preferred, err := p.preferred(ctx, from, chosen, free, d.count)
		if err != nil {
			return nil, nil, err
		}
		free = p.free(d.resource) // others have chosen meanwhile
		if len(free) < needed {
			return nil, nil, unavailable(d.resource, needed, len(free))
		}
		order := slices.DeleteFunc(preferred, func(id string) bool { return !free[id] })
		order = append(order, slices.DeleteFunc(slices.Sorted(maps.Keys(free)), func(id string) bool { return slices.Contains(order, id) })...)
		chosen = append(slices.Clone(chosen), order[:needed]...)
		h.reserved[d.resource] = max(h.reserved[d.resource]-needed, 0)
	}
	g := &grant{ids: slices.Sorted(slices.Values(chosen)), nodes: map[int64][]string{}}
	for _, id := range g.ids {
		nodes := s.devices[id].nodes
		if len(nodes) == 0 {
			nodes = []int64{noNode}
		}
		for _, n := range nodes {
			g.nodes[n] = append(g.nodes[n], id)
		}
	}
	h.set(d.container, d.resource, g)
	return g, from, nil
}

// reusable returns the devices that earlier init containers of the pod leave to a container, sorted. The lock is held.
func reusable(pod *corev1.Pod, h *holding, d demand) []string {
	left := map[string]bool{}
	for _, before := range demands(pod) {
		if before.container == d.container {
			break
		}
		g := h.grant(before.container, d.resource)
		if before.resource != d.resource || g == nil {
			continue
		}
		for _, id := range g.ids {
			if before.init && !before.sidecar {
				left[id] = true
			} else {
				delete(left, id)
			}
		}
	}
	return slices.Sorted(maps.Keys(left))
}

// preferred asks a plugin which of the free devices it prefers, besides those that are chosen. The lock is held, but not while
// the plugin is asked.
func (p *Plugins) preferred(ctx context.Context, from *plugin, chosen []string, free map[string]bool, size int) ([]string, error) {
	if !from.options.GetGetPreferredAllocationAvailable() {
		return nil, nil
	}
	all := slices.Sorted(maps.Keys(free))
	for _, id := range chosen {
		if !free[id] {
			all = append(all, id)
		}
	}
	slices.Sort(all)
	p.mu.Unlock()
	defer p.mu.Lock()
	ctx, cancel := context.WithTimeout(ctx, p.options.Timeout)
	defer cancel()
	answer, err := from.client().GetPreferredAllocation(ctx, &devices.PreferredAllocationRequest{
		ContainerRequests: []*devices.ContainerPreferredAllocationRequest{
			{AvailableDeviceIDs: all, MustIncludeDeviceIDs: chosen, AllocationSize: int32(size)}, //nolint:gosec // there are as many devices
		},
	})
	if err != nil {
		return nil, fmt.Errorf("device plugin GetPreferredAllocation rpc failed with err: %w", err)
	}
	if len(answer.GetContainerResponses()) == 0 {
		return nil, nil
	}
	ids := slices.Clone(answer.GetContainerResponses()[0].GetDeviceIDs())
	slices.Sort(ids)
	return slices.Compact(ids), nil
}
