package cluster

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/registry"
)

// private makes a cache of selected objects, which the caller runs.
func private[T informer.Object](c *Cluster, gr schema.GroupResource, s registry.Selection) (*informer.Informer[T], error) {
	source, err := registry.Source[T](c.registry, gr, s)
	if err != nil {
		return nil, err
	}
	return informer.New(source, c.informerOptions()), nil
}

// informerOptions returns the options of all caches.
func (c *Cluster) informerOptions() informer.Options {
	return informer.Options{Logger: c.log, DetectMutations: c.options.OnMutation}
}
