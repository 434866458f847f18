package cluster

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	quotaadmission "github.com/keelson-dev/keelson/admission/resourcequota"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/resourcequota"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/registry"
)

// newQuotaPlugin makes the plugin that charges quotas. It writes usage straight into the registry:
// the request that is charged for is what was authorized.
func (c *Cluster) newQuotaPlugin(err *error) *quotaadmission.Plugin {
	quotas := view[*corev1.ResourceQuota](c.registry, coreResource("resourcequotas"), err)
	return quotaadmission.New(quotas, quotaadmission.ChargerFunc(c.modifyQuota), quotaadmission.Options{
		Ignored: func(gr schema.GroupResource) bool {
			res, ok := c.registry.Resource(gr)
			return !ok || !res.Stored()
		},
	})
}

// modifyQuota changes a quota by compare and swap.
func (c *Cluster) modifyQuota(ctx context.Context, namespace, name string, change func(*corev1.ResourceQuota) error) error {
	at := registry.ObjectKey{Resource: coreResource("resourcequotas"), Namespace: namespace, Name: name}
	_, err := c.registry.Access().Modify(ctx, at, func(obj registry.Object) error {
		return change(obj.(*corev1.ResourceQuota))
	}, false)
	if errors.Is(err, registry.ErrNotFound) {
		return quotaadmission.ErrGone
	}
	return err
}

func newResourceQuota(c *Cluster, k kit) (controllers.Runnable, error) {
	var err error
	in := resourcequota.Sources{
		Quotas:   shared[*corev1.ResourceQuota](c.informers, coreResource("resourcequotas"), &err),
		Pods:     shared[*corev1.Pod](c.informers, coreResource("pods"), &err),
		Services: shared[*corev1.Service](c.informers, coreResource("services"), &err),
		Counted:  map[schema.GroupResource]*informer.Informer[informer.Object]{},
	}
	for _, res := range c.registry.Resources() {
		gr := res.GroupResource()
		if !res.Namespaced || !res.Stored() || resourcequota.Ignored(gr) {
			continue
		}
		switch gr {
		case coreResource("resourcequotas"), coreResource("pods"), coreResource("services"):
		default:
			in.Counted[gr] = shared[informer.Object](c.informers, gr, &err)
		}
	}
	if err != nil {
		return nil, err
	}
	return c.loop(resourcequota.New(in, k.client, resourcequota.Options{})), nil
}
