package metrics

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// Summaries is a Source that asks kubelets for their summaries on demand.
type Summaries struct {
	// AllNodes returns the nodes to ask, and Pod returns a pod by namespace and name, or nil; both serve for
	// labels. Their results are not changed.
	AllNodes func() []*corev1.Node
	Pod      func(namespace, name string) *corev1.Pod
	// Summary asks the kubelet of a node; CPU and memory are enough.
	Summary func(ctx context.Context, node string) (*v1alpha1.Summary, error)
	// Window is the period over which kubelets measure CPU; 0 is 10 s. Age is how long a response is cached; 0
	// is 2 s. Timeout is how long to wait for one; 0 is 5 s.
	Window, Age, Timeout time.Duration
	// Logger logs kubelets that do not respond; nil discards.
	Logger *slog.Logger

	mu     sync.Mutex
	asked  time.Time
	answer map[string]*v1alpha1.Summary
}

// all asks every kubelet at once, unless the last responses are recent.
func (s *Summaries) all(ctx context.Context) (map[string]*v1alpha1.Summary, error) {
	if s.AllNodes == nil || s.Summary == nil {
		return nil, errors.New("no source of metrics is configured")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.asked) < cmp.Or(s.Age, 2*time.Second) {
		return s.answer, nil
	}
	limited, cancel := context.WithTimeout(ctx, cmp.Or(s.Timeout, 5*time.Second))
	defer cancel()
	var (
		group sync.WaitGroup
		mu    sync.Mutex
		out   = map[string]*v1alpha1.Summary{}
		slots = make(chan struct{}, 32)
	)
	for _, node := range s.AllNodes() {
		group.Go(func() {
			select {
			case slots <- struct{}{}:
			case <-limited.Done():
				return
			}
			defer func() { <-slots }()
			summary, err := s.Summary(limited, node.Name)
			if err != nil {
				if s.Logger != nil && ctx.Err() == nil {
					s.Logger.Warn("cannot get a kubelet's metrics", "node", node.Name, "error", err)
				}
				return
			}
			mu.Lock()
			defer mu.Unlock()
			out[node.Name] = summary
		})
	}
	group.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.answer, s.asked = out, time.Now()
	return out, nil
}

func (s *Summaries) usage(cpu *v1alpha1.CPUStats, memory *v1alpha1.MemoryStats) (Usage, bool) {
	if cpu == nil || cpu.UsageNanoCores == nil || memory == nil || memory.WorkingSetBytes == nil {
		return Usage{}, false
	}
	return Usage{
		At: cpu.Time.Time, Window: cmp.Or(s.Window, 10*time.Second), CPU: *cpu.UsageNanoCores, Memory: *memory.WorkingSetBytes,
	}, true
}

// Nodes implements Source.
func (s *Summaries) Nodes(ctx context.Context) ([]NodeUsage, error) {
	all, err := s.all(ctx)
	if err != nil {
		return nil, err
	}
	var out []NodeUsage
	for _, node := range s.AllNodes() {
		summary := all[node.Name]
		if summary == nil {
			continue
		}
		if usage, ok := s.usage(summary.Node.CPU, summary.Node.Memory); ok {
			out = append(out, NodeUsage{Name: node.Name, Labels: maps.Clone(node.Labels), Usage: usage})
		}
	}
	return out, nil
}

// Pods implements Source. It omits pods that no longer exist in the API, and pods with a container of unknown
// usage.
func (s *Summaries) Pods(ctx context.Context, namespace string) ([]PodUsage, error) {
	all, err := s.all(ctx)
	if err != nil {
		return nil, err
	}
	var out []PodUsage
	for _, summary := range all {
		for i := range summary.Pods {
			stats := &summary.Pods[i]
			if namespace != "" && stats.PodRef.Namespace != namespace {
				continue
			}
			use := PodUsage{Namespace: stats.PodRef.Namespace, Name: stats.PodRef.Name}
			if s.Pod != nil {
				pod := s.Pod(use.Namespace, use.Name)
				if pod == nil {
					continue
				}
				use.Labels = maps.Clone(pod.Labels)
			}
			if s.containers(&use, stats.Containers) {
				out = append(out, use)
			}
		}
	}
	return out, nil
}

func (s *Summaries) containers(use *PodUsage, list []v1alpha1.ContainerStats) bool {
	for i := range list {
		usage, ok := s.usage(list[i].CPU, list[i].Memory)
		if !ok {
			return false
		}
		use.Containers = append(use.Containers, ContainerUsage{Name: list[i].Name, Usage: usage})
	}
	return len(list) > 0
}
