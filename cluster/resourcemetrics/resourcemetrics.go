package resourcemetrics

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/component"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/metrics"
)

// Name is the name of the extension.
const Name = "resourcemetrics"

// Options configures the extension. The zero value is ready to use.
type Options struct {
	// Age is for how long an answer of the kubelets is used; 0 is 2 s.
	Age time.Duration
	// Timeout is how long to wait for them; 0 is 5 s.
	Timeout time.Duration
}

// Extension returns the extension.
func Extension(o Options) cluster.Extension {
	return cluster.Extension{Name: Name, New: func(p *cluster.ExtensionParts) (cluster.Extended, error) { return newExtended(p, o) }}
}

// extended is the extension of one cluster.
type extended struct {
	kinds   *cluster.Kinds
	metrics []registry.Kind
}

func newExtended(p *cluster.ExtensionParts, o Options) (*extended, error) {
	kubelets, ok := p.Client.(client.Querier)
	if !ok {
		return nil, errors.New("the server's client cannot ask kubelets")
	}
	nodes := component.Informer[*corev1.Node](p.Informers, corev1.SchemeGroupVersion.WithResource("nodes"))
	pods := component.Informer[*corev1.Pod](p.Informers, corev1.SchemeGroupVersion.WithResource("pods"))
	if err := p.Informers.Err(); err != nil {
		return nil, err
	}
	return &extended{kinds: p.Kinds, metrics: metrics.Kinds(&metrics.Summaries{
		AllNodes: func() []*corev1.Node { return nodes.List("") },
		Pod: func(namespace, name string) *corev1.Pod {
			pod, _ := pods.Get(namespace, name)
			return pod
		},
		Summary: func(ctx context.Context, node string) (*v1alpha1.Summary, error) { return summary(ctx, kubelets, node) },
		Age:     o.Age, Timeout: o.Timeout, Logger: p.Logger,
	})}, nil
}

// summary asks the kubelet of a node, through the API server.
func summary(ctx context.Context, kubelets client.Querier, node string) (*v1alpha1.Summary, error) {
	data, err := kubelets.Query(ctx, "/api/v1/nodes/"+node+"/proxy/stats/summary", url.Values{"only_cpu_and_memory": {"true"}})
	if err != nil {
		return nil, err
	}
	out := &v1alpha1.Summary{}
	return out, json.Unmarshal(data, out)
}

// Prepare implements cluster.Extended.
func (e *extended) Prepare(ctx context.Context) error {
	for _, k := range e.metrics {
		if err := e.kinds.Install(ctx, k); err != nil {
			return err
		}
	}
	return nil
}

// Run implements cluster.Extended.
func (*extended) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}
