package cluster

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/resourcequota"
	"github.com/keelson-dev/keelson/registry"
)

// newQuotaPlugin makes the plugin that charges quotas. It writes usage directly to the registry: only the charged
// request itself needs authorization.
func newQuotaPlugin(p ServerParts) (admission.Plugin, error) {
	quotas, err := registry.NewLive[*corev1.ResourceQuota](p.Registry, coreResource("resourcequotas"))
	if err != nil {
		return nil, err
	}
	return resourcequota.New(quotas, charger(p.Registry), resourcequota.Options{
		Ignored: func(gr schema.GroupResource) bool {
			res, ok := p.Registry.Resource(gr)
			return !ok || !res.Stored()
		},
	}), nil
}

// charger changes quotas by compare and swap.
func charger(r *registry.Registry) resourcequota.ChargerFunc {
	return func(ctx context.Context, namespace, name string, change func(*corev1.ResourceQuota) error) error {
		at := registry.ObjectKey{Resource: coreResource("resourcequotas"), Namespace: namespace, Name: name}
		_, err := r.Access().Modify(ctx, at, func(obj registry.Object) error {
			return change(obj.(*corev1.ResourceQuota))
		}, false)
		if errors.Is(err, registry.ErrNotFound) {
			return resourcequota.ErrGone
		}
		return err
	}
}
