package metrics

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/keelson-dev/keelson/registry"
)

// Source provides the resource usage of nodes and pods.
type Source interface {
	// Nodes returns the known usage of nodes, in any order.
	Nodes(ctx context.Context) ([]NodeUsage, error)
	// Pods returns the known usage of the pods of a namespace, or of all namespaces with "", in any order.
	Pods(ctx context.Context, namespace string) ([]PodUsage, error)
}

// Usage is CPU usage in nanocores, averaged over the window that ended at a time, and the memory of the working
// set in bytes at that time.
type Usage struct {
	At          time.Time     // the end of the window
	Window      time.Duration // over which CPU was measured
	CPU, Memory uint64        // nanocores, and bytes of the working set
}

// NodeUsage is the usage of a node.
type NodeUsage struct {
	Name   string
	Labels map[string]string
	Usage
}

// PodUsage is the usage of a pod's containers.
type PodUsage struct {
	Namespace, Name string
	Labels          map[string]string
	// Containers are the running ones.
	Containers []ContainerUsage
}

// ContainerUsage is the usage of a container.
type ContainerUsage struct {
	Name string
	Usage
}

// Kinds returns the kinds of the group.
func Kinds(s Source) []registry.Kind {
	return []registry.Kind{nodeMetrics(s), podMetrics(s)}
}

func nodeMetrics(s Source) registry.Kind {
	list := func(ctx context.Context, name string) ([]registry.Object, error) {
		nodes, err := s.Nodes(ctx)
		if err != nil {
			return nil, err
		}
		var out []registry.Object
		for _, n := range nodes {
			if name == "" || n.Name == name {
				out = append(out, nodeObject(n))
			}
		}
		return sorted(out), nil
	}
	return registry.Computed[*v1beta1.NodeMetrics]{
		Names:        registry.Names{Kind: "NodeMetrics", Plural: "nodes"},
		GroupVersion: v1beta1.SchemeGroupVersion,
		New:          func() *v1beta1.NodeMetrics { return &v1beta1.NodeMetrics{} },
		NewList:      func() runtime.Object { return &v1beta1.NodeMetricsList{} },
		Read: reader{
			get:  func(ctx context.Context, _, name string) ([]registry.Object, error) { return list(ctx, name) },
			list: func(ctx context.Context, _ string) ([]registry.Object, error) { return list(ctx, "") },
		},
		Columns: columns(func(m *v1beta1.NodeMetrics) (corev1.ResourceList, metav1.Duration) { return m.Usage, m.Window }),
	}.Kind()
}

func podMetrics(s Source) registry.Kind {
	list := func(ctx context.Context, namespace, name string) ([]registry.Object, error) {
		pods, err := s.Pods(ctx, namespace)
		if err != nil {
			return nil, err
		}
		var out []registry.Object
		for _, p := range pods {
			if (name == "" || p.Name == name) && (namespace == "" || p.Namespace == namespace) && len(p.Containers) > 0 {
				out = append(out, podObject(p))
			}
		}
		return sorted(out), nil
	}
	return registry.Computed[*v1beta1.PodMetrics]{
		Names:        registry.Names{Kind: "PodMetrics", Plural: "pods"},
		GroupVersion: v1beta1.SchemeGroupVersion,
		Namespaced:   true,
		New:          func() *v1beta1.PodMetrics { return &v1beta1.PodMetrics{} },
		NewList:      func() runtime.Object { return &v1beta1.PodMetricsList{} },
		Read: reader{
			get: list,
			list: func(ctx context.Context, namespace string) ([]registry.Object, error) {
				return list(ctx, namespace, "")
			},
		},
		Columns: columns(func(m *v1beta1.PodMetrics) (corev1.ResourceList, metav1.Duration) {
			sum := corev1.ResourceList{}
			for _, c := range m.Containers {
				for name, quantity := range c.Usage {
					quantity.Add(sum[name])
					sum[name] = quantity
				}
			}
			return sum, m.Window
		}),
	}.Kind()
}

// reader is a registry.Reader made of functions; get returns at most one object.
type reader struct {
	get  func(ctx context.Context, namespace, name string) ([]registry.Object, error)
	list func(ctx context.Context, namespace string) ([]registry.Object, error)
}

func (r reader) Get(ctx context.Context, namespace, name string) (registry.Object, error) {
	found, err := r.get(ctx, namespace, name)
	if len(found) == 0 {
		return nil, err
	}
	return found[0], nil
}

func (r reader) List(ctx context.Context, namespace string) ([]registry.Object, error) {
	return r.list(ctx, namespace)
}

func sorted(list []registry.Object) []registry.Object {
	slices.SortFunc(list, func(a, b registry.Object) int {
		return cmp.Or(strings.Compare(a.GetNamespace(), b.GetNamespace()), strings.Compare(a.GetName(), b.GetName()))
	})
	return list
}

func nodeObject(n NodeUsage) registry.Object {
	return &v1beta1.NodeMetrics{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: n.Labels, CreationTimestamp: metav1.Now()},
		Timestamp:  metav1.NewTime(n.At), Window: metav1.Duration{Duration: n.Window}, Usage: n.list(),
	}
}

// podObject sets the time of the container that was measured first, as upstream does.
func podObject(p PodUsage) registry.Object {
	out := &v1beta1.PodMetrics{
		ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace, Labels: p.Labels, CreationTimestamp: metav1.Now()},
	}
	earliest := p.Containers[0]
	for _, c := range p.Containers {
		if c.At.Before(earliest.At) {
			earliest = c
		}
		out.Containers = append(out.Containers, v1beta1.ContainerMetrics{Name: c.Name, Usage: c.list()})
	}
	out.Timestamp, out.Window = metav1.NewTime(earliest.At), metav1.Duration{Duration: earliest.Window}
	return out
}

func (u Usage) list() corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewScaledQuantity(int64(min(u.CPU, 1<<63-1)), resource.Nano),
		corev1.ResourceMemory: *resource.NewQuantity(int64(min(u.Memory, 1<<63-1)), resource.BinarySI),
	}
}

func columns[T registry.Object](use func(T) (corev1.ResourceList, metav1.Duration)) registry.Columns[T] {
	return registry.Columns[T]{
		Definitions: []metav1.TableColumnDefinition{
			registry.NameColumn(),
			registry.TextColumn("cpu", "CPU used, in cores."),
			registry.TextColumn("memory", "Memory of the working set."),
			registry.TextColumn("Window", "The time over which CPU was measured."),
		},
		Cells: func(obj T, _ time.Time) []any {
			list, window := use(obj)
			return []any{obj.GetName(), list.Cpu().String(), list.Memory().String(), window.Duration.String()}
		},
	}
}
