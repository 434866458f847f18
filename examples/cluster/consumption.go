package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	corev1 "k8s.io/api/core/v1"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/keelson-dev/keelson/node"
	"github.com/keelson-dev/keelson/node/bundled"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/metrics"
)

// consumption holds what running nodes report about their usage, for kubectl top.
type consumption struct {
	mu    sync.Mutex
	nodes map[string]running
}

type running struct {
	node  *bundled.Node
	parts node.Parts
}

func (u *consumption) add(name string, r running) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.nodes == nil {
		u.nodes = map[string]running{}
	}
	u.nodes[name] = r
}

func (u *consumption) all() []running {
	u.mu.Lock()
	defer u.mu.Unlock()
	list := make([]running, 0, len(u.nodes))
	for _, r := range u.nodes {
		list = append(list, r)
	}
	return list
}

// kinds are those of metrics.k8s.io.
func (u *consumption) kinds(log *slog.Logger) []registry.Kind {
	s := &metrics.Summaries{Logger: log}
	s.AllNodes = func() []*corev1.Node {
		var list []*corev1.Node
		for _, r := range u.all() {
			list = append(list, r.parts.Node.List("")...)
		}
		return list
	}
	s.Pod = func(namespace, name string) *corev1.Pod {
		for _, r := range u.all() {
			if pod, ok := r.parts.Pods.Get(namespace, name); ok {
				return pod
			}
		}
		return nil
	}
	s.Summary = func(ctx context.Context, node string) (*statsv1alpha1.Summary, error) {
		u.mu.Lock()
		r, known := u.nodes[node]
		u.mu.Unlock()
		if !known {
			return nil, fmt.Errorf("node %s: %w", node, bundled.ErrNotRunning)
		}
		return r.node.Resources(ctx)
	}
	return metrics.Kinds(s)
}
