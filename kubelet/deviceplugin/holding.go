package deviceplugin

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	devices "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/keelson-dev/keelson/podspec/restart"
)

// holding is what a pod has.
type holding struct {
	admitted   bool           // by this process
	prepared   bool           // what it was admitted with has been allocated
	reserved   map[string]int // numbers of devices that are not chosen yet
	containers map[string]map[string]*grant
}

// grant is what a container has of a resource.
type grant struct {
	ids    []string // sorted
	nodes  map[int64][]string
	answer *devices.ContainerAllocateResponse // nil while the plugin is asked
}

func (h *holding) grant(container, resource string) *grant {
	if h == nil {
		return nil
	}
	return h.containers[container][resource]
}

func (h *holding) set(container, resource string, g *grant) {
	if h.containers[container] == nil {
		h.containers[container] = map[string]*grant{}
	}
	h.containers[container][resource] = g
}

// devices returns the IDs of all devices of a resource.
func (h *holding) devices(resource string) map[string]bool {
	ids := map[string]bool{}
	for _, grants := range h.containers {
		if g := grants[resource]; g != nil {
			for _, id := range g.ids {
				ids[id] = true
			}
		}
	}
	return ids
}

// hold returns what a pod has, to be changed. The lock is held.
func (p *Plugins) hold(uid types.UID) *holding {
	h := p.pods[uid]
	if h == nil {
		h = &holding{reserved: map[string]int{}, containers: map[string]map[string]*grant{}}
		p.pods[uid] = h
	}
	return h
}

// used returns the devices of a resource that pods have. The lock is held.
func (p *Plugins) used(resource string) map[string]bool {
	ids := map[string]bool{}
	for _, h := range p.pods {
		maps.Copy(ids, h.devices(resource))
	}
	return ids
}

// managed reports whether a resource is that of a plugin, or was when pods got devices of it. The lock is held.
func (p *Plugins) managed(resource string) bool {
	if s := p.resources[resource]; s != nil && s.listed {
		return true
	}
	for _, h := range p.pods {
		for _, grants := range h.containers {
			if grants[resource] != nil {
				return true
			}
		}
	}
	return false
}

// Allocated returns how many devices of each resource pods have, or have reserved.
func (p *Plugins) Allocated() map[corev1.ResourceName]int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := map[string]map[string]bool{}
	found := map[corev1.ResourceName]int64{}
	for _, h := range p.pods {
		for name, n := range h.reserved {
			found[corev1.ResourceName(name)] += int64(n)
		}
		for _, grants := range h.containers {
			for name, g := range grants {
				if all[name] == nil {
					all[name] = map[string]bool{}
				}
				for _, id := range g.ids {
					all[name][id] = true
				}
			}
		}
	}
	for name, ids := range all {
		found[corev1.ResourceName(name)] += int64(len(ids))
	}
	return found
}

// Health returns the health of a container's devices.
func (p *Plugins) Health(uid types.UID, container string) []corev1.ResourceStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.pods[uid]
	if h == nil {
		return nil
	}
	grants := h.containers[container]
	var all []corev1.ResourceStatus
	for _, name := range slices.Sorted(maps.Keys(grants)) {
		status := corev1.ResourceStatus{Name: corev1.ResourceName(name)}
		for _, id := range grants[name].ids {
			health := corev1.ResourceHealthStatusHealthy
			if s := p.resources[name]; s != nil {
				if d, known := s.devices[id]; known && !d.said {
					health = corev1.ResourceHealthStatusUnhealthy
				}
			}
			status.Resources = append(status.Resources, corev1.ResourceHealth{ResourceID: corev1.ResourceID(id), Health: health})
		}
		all = append(all, status)
	}
	return all
}

// demand is a resource that a container wants devices of.
type demand struct {
	container, resource string
	count               int
	init, sidecar       bool
}

// demands are those of a pod's containers, in the order in which they are met.
func demands(pod *corev1.Pod) []demand {
	var all []demand
	add := func(c *corev1.Container, init bool) {
		for _, name := range slices.Sorted(maps.Keys(c.Resources.Limits)) {
			if byClaim(pod, c.Name, string(name)) {
				continue
			}
			count := c.Resources.Limits[name]
			all = append(all, demand{c.Name, string(name), int(count.Value()), init, init && restart.Sidecar(c)})
		}
	}
	for i := range pod.Spec.InitContainers {
		add(&pod.Spec.InitContainers[i], true)
	}
	for i := range pod.Spec.Containers {
		add(&pod.Spec.Containers[i], false)
	}
	return all
}

// byClaim reports whether a container gets a resource by a claim that the scheduler has made for it.
func byClaim(pod *corev1.Pod, container, resource string) bool {
	status := pod.Status.ExtendedResourceClaimStatus
	return status != nil && slices.ContainsFunc(status.RequestMappings, func(m corev1.ContainerExtendedResourceRequest) bool {
		return m.ContainerName == container && m.ResourceName == resource
	})
}
