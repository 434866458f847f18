package quota

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
)

func serviceEvaluator() Evaluator {
	return Evaluator{
		tracks: func(name corev1.ResourceName) bool {
			switch name {
			case "count/services", corev1.ResourceServices, corev1.ResourceServicesNodePorts, corev1.ResourceServicesLoadBalancers:
				return true
			}
			return false
		},
		usage: func(obj runtime.Object, _ time.Time) corev1.ResourceList {
			svc, ok := obj.(*corev1.Service)
			if !ok {
				return nil
			}
			return serviceUsage(svc)
		},
		rises: func(_, _ runtime.Object) bool { return true },
	}
}

func serviceUsage(svc *corev1.Service) corev1.ResourceList {
	ports, balancers := 0, 0
	switch svc.Spec.Type {
	case corev1.ServiceTypeNodePort:
		ports = len(svc.Spec.Ports)
	case corev1.ServiceTypeLoadBalancer:
		balancers = 1
		// By the spec, since ports may not be allocated yet.
		given := svc.Spec.AllocateLoadBalancerNodePorts
		for _, p := range svc.Spec.Ports {
			if given == nil || *given || p.NodePort != 0 {
				ports++
			}
		}
	}
	return corev1.ResourceList{
		"count/services":                     count(1),
		corev1.ResourceServices:              count(1),
		corev1.ResourceServicesNodePorts:     count(ports),
		corev1.ResourceServicesLoadBalancers: count(balancers),
	}
}

// ofClass is part of the names of limits on the claims of one storage class.
const ofClass = ".storageclass.storage.k8s.io/"

func claimEvaluator() Evaluator {
	return Evaluator{
		tracks: func(name corev1.ResourceName) bool {
			if _, rest, ok := strings.Cut(string(name), ofClass); ok {
				name = corev1.ResourceName(rest)
			} else if name == "count/persistentvolumeclaims" {
				return true
			}
			return name == corev1.ResourcePersistentVolumeClaims || name == corev1.ResourceRequestsStorage
		},
		usage: func(obj runtime.Object, _ time.Time) corev1.ResourceList {
			claim, ok := obj.(*corev1.PersistentVolumeClaim)
			if !ok {
				return corev1.ResourceList{"count/persistentvolumeclaims": count(1), corev1.ResourcePersistentVolumeClaims: count(1)}
			}
			return claimUsage(claim)
		},
		scope: func(r *corev1.ScopedResourceSelectorRequirement, obj runtime.Object) bool {
			claim, ok := obj.(*corev1.PersistentVolumeClaim)
			return ok && r.ScopeName == corev1.ResourceQuotaScopeVolumeAttributesClass && claimInClass(r, claim)
		},
		rises: func(_, _ runtime.Object) bool { return true },
	}
}

func claimUsage(claim *corev1.PersistentVolumeClaim) corev1.ResourceList {
	usage := corev1.ResourceList{"count/persistentvolumeclaims": count(1), corev1.ResourcePersistentVolumeClaims: count(1)}
	class := claim.Annotations[corev1.BetaStorageClassAnnotation]
	if name := claim.Spec.StorageClassName; class == "" && name != nil {
		class = *name
	}
	if class != "" {
		usage[corev1.ResourceName(class+ofClass)+corev1.ResourcePersistentVolumeClaims] = count(1)
	}
	request, ok := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if !ok {
		return usage
	}
	request = whole(request)
	if allocated, ok := claim.Status.AllocatedResources[corev1.ResourceStorage]; ok && allocated.Cmp(request) > 0 {
		request = whole(allocated)
	}
	usage[corev1.ResourceRequestsStorage] = request
	if class != "" {
		usage[corev1.ResourceName(class+ofClass)+corev1.ResourceRequestsStorage] = request
	}
	return usage
}

// whole rounds up to bytes.
func whole(q resource.Quantity) resource.Quantity {
	q = q.DeepCopy()
	q.RoundUp(0)
	return q
}

// claimInClass reports whether a requirement selects any of a claim's past, current or future attribute classes.
func claimInClass(r *corev1.ScopedResourceSelectorRequirement, claim *corev1.PersistentVolumeClaim) bool {
	var classes []string
	add := func(name *string) {
		if name != nil && *name != "" {
			classes = append(classes, *name)
		}
	}
	add(claim.Spec.VolumeAttributesClassName)
	add(claim.Status.CurrentVolumeAttributesClassName)
	if s := claim.Status.ModifyVolumeStatus; s != nil {
		add(&s.TargetVolumeAttributesClassName)
	}
	for _, class := range classes {
		if selects(r, class) {
			return true
		}
	}
	return len(classes) == 0 && selects(r, "")
}
