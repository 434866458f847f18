package deviceplugin

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	devices "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/kubelet"
)

// Container returns what a container gets of its plugins, some of which want to be told before it starts.
func (p *Plugins) Container(ctx context.Context, pod *corev1.Pod, c *corev1.Container) (kubelet.ContainerDevices, error) {
	if err := p.allocate(ctx, pod, c.Name); err != nil { // of a plugin that has registered after the pod was admitted
		return kubelet.ContainerDevices{}, err
	}
	p.mu.Lock()
	grants := map[string]*grant{}
	if h := p.pods[pod.UID]; h != nil {
		maps.Copy(grants, h.containers[c.Name])
	}
	p.mu.Unlock()
	names := slices.Sorted(maps.Keys(grants))
	for _, name := range names {
		if err := p.preStart(ctx, name, grants[name].ids); err != nil {
			return kubelet.ContainerDevices{}, err
		}
	}
	var m merger
	for _, name := range names {
		m.add(grants[name].answer)
	}
	for _, conflict := range m.conflicts {
		p.log.Warn("device plugins disagree", "pod", pod.Namespace+"/"+pod.Name, "container", c.Name, "about", conflict)
	}
	return m.all, nil
}

// preStart tells a plugin that a container is about to start, if it wants to know.
func (p *Plugins) preStart(ctx context.Context, resource string, ids []string) error {
	p.mu.Lock()
	s := p.resources[resource]
	if s == nil {
		p.mu.Unlock()
		return fmt.Errorf("endpoint not found in cache for a registered resource: %s", resource)
	}
	to := s.current
	p.mu.Unlock()
	if !to.wantsPreStart() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, p.options.Timeout)
	defer cancel()
	if _, err := to.client().PreStartContainer(ctx, &devices.PreStartContainerRequest{DevicesIds: ids}); err != nil {
		return fmt.Errorf("device plugin PreStartContainer rpc failed with err: %w", err)
	}
	return nil
}

func (p *plugin) wantsPreStart() bool { return p != nil && p.options.GetPreStartRequired() }

// merger joins the answers of several plugins. The first that names something decides what it is.
type merger struct {
	all       kubelet.ContainerDevices
	conflicts []string
	said      map[string]string
}

// first reports whether something is named for the first time.
func (m *merger) first(kind, name, value string) bool {
	if m.said == nil {
		m.said = map[string]string{}
	}
	key := kind + " " + name
	before, known := m.said[key]
	if !known {
		m.said[key] = value
	} else if before != value {
		m.conflicts = append(m.conflicts, key)
	}
	return !known
}

func (m *merger) add(answer *devices.ContainerAllocateResponse) {
	for _, name := range slices.Sorted(maps.Keys(answer.GetEnvs())) {
		if value := answer.GetEnvs()[name]; m.first("variable", name, value) {
			m.all.Env = append(m.all.Env, cri.EnvVar{Name: name, Value: value})
		}
	}
	for _, d := range answer.GetDevices() {
		if m.first("device", d.GetContainerPath(), d.GetHostPath()) {
			m.all.Devices = append(m.all.Devices, cri.Device{
				ContainerPath: d.GetContainerPath(), HostPath: d.GetHostPath(), Permissions: d.GetPermissions(),
			})
		}
	}
	for _, d := range answer.GetMounts() {
		if m.first("mount", d.GetContainerPath(), d.GetHostPath()) {
			m.all.Mounts = append(m.all.Mounts, cri.Mount{
				ContainerPath: d.GetContainerPath(), HostPath: d.GetHostPath(), ReadOnly: d.GetReadOnly(),
			})
		}
	}
	for name, value := range answer.GetAnnotations() {
		if m.first("annotation", name, value) {
			if m.all.Annotations == nil {
				m.all.Annotations = map[string]string{}
			}
			m.all.Annotations[name] = value
		}
	}
	for _, d := range answer.GetCdiDevices() {
		if m.first("CDI device", d.GetName(), "") {
			m.all.CDIDevices = append(m.all.CDIDevices, d.GetName())
		}
	}
}
