package controllermanager

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/keelson-dev/keelson/component"
	"github.com/keelson-dev/keelson/controllers/endpoints"
	"github.com/keelson-dev/keelson/controllers/endpointslice"
	"github.com/keelson-dev/keelson/controllers/endpointslicemirroring"
	"github.com/keelson-dev/keelson/controllers/loadbalancer"
	"github.com/keelson-dev/keelson/controllers/servicecidrs"
	"github.com/keelson-dev/keelson/lifecycle"
)

func newEndpoints(p *component.Parts) (lifecycle.Runnable, error) {
	in := endpoints.Sources{
		Services:  component.Informer[*corev1.Service](p.Informers, corev1.SchemeGroupVersion.WithResource("services")),
		Pods:      component.Informer[*corev1.Pod](p.Informers, corev1.SchemeGroupVersion.WithResource("pods")),
		Endpoints: component.Informer[*corev1.Endpoints](p.Informers, corev1.SchemeGroupVersion.WithResource("endpoints")),
	}
	if err := p.Informers.Err(); err != nil {
		return nil, err
	}
	return p.Loop(endpoints.New(in, p.Client, p.Recorder, endpoints.Options{})), nil
}

func newEndpointSlice(p *component.Parts) (lifecycle.Runnable, error) {
	in := endpointslice.Sources{
		Services:       component.Informer[*corev1.Service](p.Informers, corev1.SchemeGroupVersion.WithResource("services")),
		Pods:           component.Informer[*corev1.Pod](p.Informers, corev1.SchemeGroupVersion.WithResource("pods")),
		Nodes:          component.Informer[*corev1.Node](p.Informers, corev1.SchemeGroupVersion.WithResource("nodes")),
		EndpointSlices: component.Informer[*discoveryv1.EndpointSlice](p.Informers, discoveryv1.SchemeGroupVersion.WithResource("endpointslices")),
	}
	if err := p.Informers.Err(); err != nil {
		return nil, err
	}
	return p.Loop(endpointslice.New(in, p.Client, p.Recorder, endpointslice.Options{})), nil
}

func newEndpointSliceMirroring(p *component.Parts) (lifecycle.Runnable, error) {
	in := endpointslicemirroring.Sources{
		Services:       component.Informer[*corev1.Service](p.Informers, corev1.SchemeGroupVersion.WithResource("services")),
		Endpoints:      component.Informer[*corev1.Endpoints](p.Informers, corev1.SchemeGroupVersion.WithResource("endpoints")),
		EndpointSlices: component.Informer[*discoveryv1.EndpointSlice](p.Informers, discoveryv1.SchemeGroupVersion.WithResource("endpointslices")),
	}
	if err := p.Informers.Err(); err != nil {
		return nil, err
	}
	return p.Loop(endpointslicemirroring.New(in, p.Client, p.Recorder, endpointslicemirroring.Options{})), nil
}

func newServiceCIDRs(p *component.Parts) (lifecycle.Runnable, error) {
	in := servicecidrs.Sources{
		CIDRs:     component.Informer[*networkingv1.ServiceCIDR](p.Informers, networkingv1.SchemeGroupVersion.WithResource("servicecidrs")),
		Addresses: component.Informer[*networkingv1.IPAddress](p.Informers, networkingv1.SchemeGroupVersion.WithResource("ipaddresses")),
	}
	if err := p.Informers.Err(); err != nil {
		return nil, err
	}
	return p.Loop(servicecidrs.New(in, p.Client, p.Recorder)), nil
}

// LoadBalancer returns the controller that gives services of type LoadBalancer addresses. Upstream's is a cloud's, so it is
// not among Components.
func LoadBalancer(o loadbalancer.Options) component.Component {
	return component.Component{
		Name: "service-lb-controller", Source: "service-controller", Program: program, Identity: account("service-controller"),
		New: func(p *component.Parts) (lifecycle.Runnable, error) {
			services := component.Informer[*corev1.Service](p.Informers, corev1.SchemeGroupVersion.WithResource("services"))
			if err := p.Informers.Err(); err != nil {
				return nil, err
			}
			c, err := loadbalancer.New(services, p.Client, p.Recorder, o)
			if err != nil {
				return nil, err
			}
			return p.Loop(c), nil
		},
	}
}
