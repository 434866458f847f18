package resource

import (
	"encoding/json"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/api/resource/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/registry"
)

// Version v1beta1 had what a request is about in the request itself, and what a device has in a field of its own. All else
// has the same JSON as in v1.

func claimsOfV1beta1() registry.Older {
	return registry.Older{
		GroupVersion: v1beta1.SchemeGroupVersion,
		New:          func() runtime.Object { return &v1beta1.ResourceClaim{} },
		ToStored: func(obj runtime.Object) registry.Object {
			old, out := obj.(*v1beta1.ResourceClaim), &resourcev1.ResourceClaim{}
			again(old, out)
			requestsOf(&old.Spec, &out.Spec)
			return out
		},
	}
}

func templatesOfV1beta1() registry.Older {
	return registry.Older{
		GroupVersion: v1beta1.SchemeGroupVersion,
		New:          func() runtime.Object { return &v1beta1.ResourceClaimTemplate{} },
		ToStored: func(obj runtime.Object) registry.Object {
			old, out := obj.(*v1beta1.ResourceClaimTemplate), &resourcev1.ResourceClaimTemplate{}
			again(old, out)
			requestsOf(&old.Spec.Spec, &out.Spec.Spec)
			return out
		},
	}
}

func slicesOfV1beta1() registry.Older {
	return registry.Older{
		GroupVersion: v1beta1.SchemeGroupVersion,
		New:          func() runtime.Object { return &v1beta1.ResourceSlice{} },
		ToStored: func(obj runtime.Object) registry.Object {
			old, out := obj.(*v1beta1.ResourceSlice), &resourcev1.ResourceSlice{}
			again(old, out)
			for i := range old.Spec.Devices {
				if basic := old.Spec.Devices[i].Basic; basic != nil {
					again(basic, &out.Spec.Devices[i])
				}
			}
			return out
		},
	}
}

func requestsOf(old *v1beta1.ResourceClaimSpec, out *resourcev1.ResourceClaimSpec) {
	for i := range old.Devices.Requests {
		r := old.Devices.Requests[i]
		if r.DeviceClassName == "" && len(r.Selectors) == 0 && r.AllocationMode == "" && r.Count == 0 && r.AdminAccess == nil &&
			len(r.Tolerations) == 0 && r.Capacity == nil && len(r.DerivedAttributes) == 0 {
			continue
		}
		out.Devices.Requests[i].Exactly = &resourcev1.ExactDeviceRequest{}
		again(&r, out.Devices.Requests[i].Exactly)
	}
}

// again reads the JSON of one type as another. All values of these types have JSON, and the fields that both have are of
// the same types.
func again(from, into any) {
	if data, err := json.Marshal(from); err == nil {
		_ = json.Unmarshal(data, into)
	}
}
