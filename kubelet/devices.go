package kubelet

import (
	"context"
	"errors"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/cri"
)

// DevicePlugins makes the devices of device plugins available to containers, and their numbers known as extended resources of
// the node. Implementations are safe for concurrent use.
//
//nolint:interfacebloat // the life of the devices of one pod
type DevicePlugins interface {
	// Resources returns the resources of the node that are the plugins'. It must be quick.
	Resources() DeviceResources
	// Admitter reserves devices for a pod, and refuses it if there are not enough. It must be quick.
	Admitter
	// Prepare allocates devices to the containers of a pod. It is called before any of the pod's containers is started, and
	// again later, so it must be quick when that is done. If its error is a *Refusal, the pod is rejected; the caller retries
	// after other errors.
	Prepare(ctx context.Context, pod *corev1.Pod) error
	// Container returns what a container that is about to be created needs for its devices.
	Container(ctx context.Context, pod *corev1.Pod, container *corev1.Container) (ContainerDevices, error)
	// Allocated returns how many devices of each resource pods have, or have reserved.
	Allocated() map[corev1.ResourceName]int64
	// Health returns the health of a container's devices, as in its status.
	Health(uid types.UID, container string) []corev1.ResourceStatus
	// Release takes the devices back from a pod, none of whose containers runs any more. It succeeds when nothing is left,
	// also for an unknown pod.
	Release(ctx context.Context, uid types.UID) error
	Orphans
}

// DeviceResources are resources whose amounts device plugins know.
type DeviceResources struct {
	// Capacity counts all devices, Allocatable those that are healthy. Resources of which there are no devices any more are 0.
	Capacity, Allocatable corev1.ResourceList
	// Reset means that no kubelet has kept devices on this machine before: what the node's status says of other extended
	// resources is of another machine.
	Reset bool
}

// ContainerDevices is what a container gets of device plugins.
type ContainerDevices struct {
	// As in a cri.ContainerConfig. What the container has of its own replaces variables and annotations of the same names.
	Env         []cri.EnvVar
	Mounts      []cri.Mount
	Devices     []cri.Device
	CDIDevices  []string
	Annotations map[string]string
}

// allocateDevices allocates devices of plugins, or rejects the pod.
func (w *worker) allocateDevices(ctx context.Context, pod *corev1.Pod) error {
	if w.host.Devices.Plugins == nil {
		return nil
	}
	err := w.host.Devices.Plugins.Prepare(ctx, pod)
	var refusal *Refusal
	switch {
	case errors.As(err, &refusal):
		w.reject(pod, *refusal)
	case err != nil:
		w.failed(ctx, pod, "error allocating devices: %v", err)
	}
	return err
}

// addDevices adds what a container gets of device plugins. Its environment is there already.
func (w *worker) addDevices(ctx context.Context, config *cri.ContainerConfig, pod *corev1.Pod, c *corev1.Container) error {
	if w.host.Devices.Plugins == nil {
		return nil
	}
	got, err := w.host.Devices.Plugins.Container(ctx, pod, c)
	if err != nil {
		return err
	}
	own := map[string]bool{}
	for _, e := range config.Env {
		own[e.Name] = true
	}
	got.Env = slices.DeleteFunc(got.Env, func(e cri.EnvVar) bool { return own[e.Name] })
	config.Env = append(got.Env, config.Env...)
	config.Mounts, config.Devices = got.Mounts, append(config.Devices, got.Devices...)
	config.CDIDevices = append(config.CDIDevices, got.CDIDevices...)
	annotations := config.Annotations
	config.Annotations = maps.Clone(got.Annotations)
	if config.Annotations == nil {
		config.Annotations = map[string]string{}
	}
	maps.Copy(config.Annotations, annotations)
	return nil
}

// deviceHealth adds the health of devices to the statuses of a pod's containers.
func (w *worker) deviceHealth(status *corev1.PodStatus) {
	if w.host.Devices.Plugins == nil {
		return
	}
	for i := range status.ContainerStatuses {
		s := &status.ContainerStatuses[i]
		s.AllocatedResourcesStatus = w.host.Devices.Plugins.Health(w.uid, s.Name)
	}
}

// withDevices returns what the node has, and at least the devices that its pods have: it may have lost the plugins.
func (k *Kubelet) withDevices(allocatable corev1.ResourceList) corev1.ResourceList {
	if k.options.Host.Devices.Plugins == nil {
		return allocatable
	}
	for name, n := range k.options.Host.Devices.Plugins.Allocated() {
		if have := allocatable[name]; have.Value() < n {
			allocatable[name] = *resource.NewQuantity(n, resource.DecimalSI)
		}
	}
	return allocatable
}

// devices reports the resources of device plugins.
func (n *nodeReporter) devices(node *corev1.Node) {
	if n.k.options.Host.Devices.Plugins == nil {
		return
	}
	found := n.k.options.Host.Devices.Plugins.Resources()
	if n.foreign && found.Reset {
		for name := range node.Status.Capacity {
			if _, own := n.k.options.Capacity[name]; !own && isExtended(name) {
				node.Status.Capacity[name] = *resource.NewQuantity(0, resource.DecimalSI)
				node.Status.Allocatable[name] = *resource.NewQuantity(0, resource.DecimalSI)
			}
		}
	}
	maps.Copy(node.Status.Capacity, found.Capacity)
	maps.Copy(node.Status.Allocatable, found.Allocatable)
}
