package networking

import (
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/api/networking/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/keelson-dev/keelson/registry"
)

// olderIngresses returns the versions that servers stored until 1.21; both have the same format.
func olderIngresses() []registry.Older {
	var out []registry.Older
	for _, gv := range []schema.GroupVersion{v1beta1.SchemeGroupVersion, {Group: "extensions", Version: "v1beta1"}} {
		out = append(out, registry.Older{
			GroupVersion: gv,
			New:          func() runtime.Object { return &v1beta1.Ingress{} },
			ToStored:     func(obj runtime.Object) registry.Object { return ingressFromV1beta1(obj.(*v1beta1.Ingress)) },
		})
	}
	return out
}

func ingressFromV1beta1(old *v1beta1.Ingress) *networkingv1.Ingress {
	in := &networkingv1.Ingress{ObjectMeta: old.ObjectMeta}
	in.Spec.IngressClassName = old.Spec.IngressClassName
	if old.Spec.Backend != nil {
		in.Spec.DefaultBackend = new(backendFromV1beta1(old.Spec.Backend))
	}
	for _, tls := range old.Spec.TLS {
		in.Spec.TLS = append(in.Spec.TLS, networkingv1.IngressTLS(tls))
	}
	for _, rule := range old.Spec.Rules {
		r := networkingv1.IngressRule{Host: rule.Host}
		if rule.HTTP != nil {
			r.HTTP = &networkingv1.HTTPIngressRuleValue{}
			for i := range rule.HTTP.Paths {
				path := &rule.HTTP.Paths[i]
				kind := networkingv1.PathTypeImplementationSpecific
				if path.PathType != nil {
					kind = networkingv1.PathType(*path.PathType)
				}
				r.HTTP.Paths = append(r.HTTP.Paths, networkingv1.HTTPIngressPath{
					Path: path.Path, PathType: &kind, Backend: backendFromV1beta1(&path.Backend),
				})
			}
		}
		in.Spec.Rules = append(in.Spec.Rules, r)
	}
	for _, balancer := range old.Status.LoadBalancer.Ingress {
		b := networkingv1.IngressLoadBalancerIngress{IP: balancer.IP, Hostname: balancer.Hostname}
		for _, port := range balancer.Ports {
			b.Ports = append(b.Ports, networkingv1.IngressPortStatus(port))
		}
		in.Status.LoadBalancer.Ingress = append(in.Status.LoadBalancer.Ingress, b)
	}
	return in
}

func backendFromV1beta1(old *v1beta1.IngressBackend) networkingv1.IngressBackend {
	out := networkingv1.IngressBackend{Resource: old.Resource}
	if port := old.ServicePort; old.ServiceName != "" || port != (intstr.IntOrString{}) {
		out.Service = &networkingv1.IngressServiceBackend{
			Name: old.ServiceName, Port: networkingv1.ServiceBackendPort{Name: port.StrVal, Number: port.IntVal},
		}
	}
	return out
}
