package controllermanager

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/component"
	"github.com/keelson-dev/keelson/controllers/horizontalpodautoscaler"
	"github.com/keelson-dev/keelson/lifecycle"
)

func newHorizontalPodAutoscaler(p *component.Parts) (lifecycle.Runnable, error) {
	in := horizontalpodautoscaler.Sources{
		Autoscalers: component.Informer[*autoscalingv2.HorizontalPodAutoscaler](p.Informers, autoscalingv2.SchemeGroupVersion.WithResource("horizontalpodautoscalers")),
		Pods:        component.Informer[*corev1.Pod](p.Informers, corev1.SchemeGroupVersion.WithResource("pods")),
	}
	if err := p.Informers.Err(); err != nil {
		return nil, err
	}
	served := servedAs(p.Cluster)
	metrics := horizontalpodautoscaler.NewAPIs(queries(p.Client), served)
	return p.Loop(horizontalpodautoscaler.New(in, p.Client, metrics, p.Recorder, horizontalpodautoscaler.Options{Served: served, Logger: p.Logger})), nil
}

// servedAs returns the resources of a kind.
func servedAs(c component.Cluster) func(context.Context, schema.GroupKind) []schema.GroupVersionResource {
	return func(ctx context.Context, kind schema.GroupKind) (found []schema.GroupVersionResource) {
		all, _ := c.Resources(ctx) // what is not known is not served
		for _, r := range all {
			if r.Group == kind.Group && r.Kind == kind.Kind {
				found = append(found, r.GroupVersionResource)
			}
		}
		return found
	}
}

// queries returns the optional part of a client, or one that fails.
func queries(c client.Client) client.Querier {
	if q, ok := c.(client.Querier); ok {
		return q
	}
	return noQueries{}
}

type noQueries struct{}

// Query implements client.Querier.
func (noQueries) Query(_ context.Context, path string, _ url.Values) ([]byte, error) {
	return nil, fmt.Errorf("reading %s: %w", path, errors.ErrUnsupported)
}
