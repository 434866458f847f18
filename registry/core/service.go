package core

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/registry"
)

func services(o Services) registry.Kind {
	families, allocator := o.families(), &allocator{o}
	return registry.Definition[*corev1.Service]{
		Names: registry.Names{
			Kind: "Service", Plural: "services", Singular: "service",
			Short: []string{"svc"}, Categories: []string{"all"},
		},
		GroupVersion: corev1.SchemeGroupVersion,
		Namespaced:   true,
		Prefix:       "services/specs",
		New:          func() *corev1.Service { return &corev1.Service{} },
		NewList:      func() runtime.Object { return &corev1.ServiceList{} },
		Rules: registry.Rules[*corev1.Service]{
			Default: defaultService,
			Reading: registry.Reading[*corev1.Service]{Restore: families.restore},
			PrepareCreate: func(_ context.Context, svc *corev1.Service) {
				svc.Status = corev1.ServiceStatus{}
				families.complete(svc)
			},
			PrepareUpdate:  families.prepareUpdate,
			Effects:        registry.Effects[*corev1.Service]{Reserve: allocator.reserve},
			Validate:       func(svc *corev1.Service) field.ErrorList { return families.validate(svc, nil) },
			ValidateUpdate: families.validateUpdate,
			ValidateName:   apivalidation.NameIsDNSLabel, // KEP-5311
			CreateOnUpdate: true,
			Deletion:       registry.Deletion[*corev1.Service]{ReturnsObject: true},
		},
		Fields: func(svc *corev1.Service) fields.Set {
			return fields.Set{"spec.clusterIP": svc.Spec.ClusterIP, "spec.type": string(svc.Spec.Type)}
		},
		Sub: registry.Subresources[*corev1.Service]{Views: map[string]registry.View[*corev1.Service]{"status": {
			PrepareUpdate: func(_ context.Context, svc, old *corev1.Service) {
				svc.Spec = *old.Spec.DeepCopy()
			},
			ValidateUpdate: validateServiceStatus,
		}}, Connects: serviceConnects()},
		Columns: serviceColumns(),
	}.Kind()
}

func defaultService(svc *corev1.Service) {
	spec := &svc.Spec
	defaultAffinity(spec)
	if spec.Type == "" {
		spec.Type = corev1.ServiceTypeClusterIP
	}
	for i := range spec.Ports {
		port := &spec.Ports[i]
		if port.Protocol == "" {
			port.Protocol = corev1.ProtocolTCP
		}
		if port.TargetPort == intstr.FromInt32(0) || port.TargetPort == intstr.FromString("") {
			port.TargetPort = intstr.FromInt32(port.Port)
		}
	}
	if reachableFromOutside(svc) && spec.ExternalTrafficPolicy == "" {
		spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster
	}
	if spec.InternalTrafficPolicy == nil && proxied(svc) {
		spec.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicyCluster)
	}
	if spec.Type != corev1.ServiceTypeLoadBalancer {
		return
	}
	if spec.AllocateLoadBalancerNodePorts == nil {
		spec.AllocateLoadBalancerNodePorts = new(true)
	}
	for i := range svc.Status.LoadBalancer.Ingress {
		if in := &svc.Status.LoadBalancer.Ingress[i]; in.IP != "" && in.IPMode == nil {
			in.IPMode = new(corev1.LoadBalancerIPModeVIP)
		}
	}
}

func defaultAffinity(spec *corev1.ServiceSpec) {
	switch spec.SessionAffinity {
	case "":
		spec.SessionAffinity = corev1.ServiceAffinityNone
		spec.SessionAffinityConfig = nil
	case corev1.ServiceAffinityNone:
		spec.SessionAffinityConfig = nil
	case corev1.ServiceAffinityClientIP:
		if c := spec.SessionAffinityConfig; c == nil || c.ClientIP == nil || c.ClientIP.TimeoutSeconds == nil {
			spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{
				ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: new(corev1.DefaultClientIPServiceAffinitySeconds)},
			}
		}
	}
}

// reachableFromOutside reports whether traffic may come from outside the cluster.
func reachableFromOutside(svc *corev1.Service) bool {
	switch svc.Spec.Type {
	case corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort:
		return true
	case corev1.ServiceTypeClusterIP:
		return len(svc.Spec.ExternalIPs) > 0
	}
	return false
}

// proxied reports whether a proxy forwards traffic to services of this type.
func proxied(svc *corev1.Service) bool {
	switch svc.Spec.Type {
	case corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeClusterIP:
		return true
	}
	return false
}

// headless reports whether clients look up the endpoints themselves.
func headless(svc *corev1.Service) bool {
	return len(svc.Spec.ClusterIPs) == 1 && svc.Spec.ClusterIPs[0] == corev1.ClusterIPNone
}

// hasClusterIP reports whether the type has a cluster IP, "None" included.
func hasClusterIP(svc *corev1.Service) bool { return svc.Spec.Type != corev1.ServiceTypeExternalName }

// hasNodePorts reports whether the type may have node ports.
func hasNodePorts(svc *corev1.Service) bool {
	return svc.Spec.Type == corev1.ServiceTypeNodePort || svc.Spec.Type == corev1.ServiceTypeLoadBalancer
}

// getsNodePorts reports whether node ports are allocated to the service.
func getsNodePorts(svc *corev1.Service) bool {
	switch svc.Spec.Type {
	case corev1.ServiceTypeNodePort:
		return true
	case corev1.ServiceTypeLoadBalancer:
		return svc.Spec.AllocateLoadBalancerNodePorts == nil || *svc.Spec.AllocateLoadBalancerNodePorts
	}
	return false
}

// hasHealthPort reports whether load balancers must ask nodes for local endpoints.
func hasHealthPort(svc *corev1.Service) bool {
	return svc.Spec.Type == corev1.ServiceTypeLoadBalancer &&
		svc.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}
