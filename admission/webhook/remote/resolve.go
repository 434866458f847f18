package remote

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// Services is a cache of services; an informer is one.
type Services interface {
	// Get returns a service.
	Get(namespace, name string) (*corev1.Service, bool)
}

// Slices is a cache of endpoint slices; an informer is one.
type Slices interface {
	// List returns the slices in a namespace, which are shared and must not be changed.
	List(namespace string) []*discoveryv1.EndpointSlice
}

// ClusterIP resolves services to their cluster IPs, as kube-apiserver does by default. Something on this machine must
// route them.
func ClusterIP(services Services) Resolver {
	return ResolverFunc(func(_ context.Context, namespace, name string, port int32) (string, error) {
		s, err := find(services, namespace, name)
		if err != nil {
			return "", err
		}
		switch {
		case s.Spec.Type == corev1.ServiceTypeExternalName:
			return net.JoinHostPort(s.Spec.ExternalName, strconv.Itoa(int(port))), nil
		case s.Spec.ClusterIP == corev1.ClusterIPNone:
			return "", fmt.Errorf(`cannot route to service with ClusterIP "None"`)
		case !routed(s):
			return "", fmt.Errorf("unsupported service type %q", s.Spec.Type)
		}
		if _, err := portName(s, port); err != nil {
			return "", err
		}
		return net.JoinHostPort(s.Spec.ClusterIP, strconv.Itoa(int(port))), nil
	})
}

// Endpoints resolves services to one of their ready endpoints, as kube-apiserver does with --enable-aggregator-routing.
func Endpoints(services Services, slices Slices) Resolver {
	return ResolverFunc(func(_ context.Context, namespace, name string, port int32) (string, error) {
		s, err := find(services, namespace, name)
		if err != nil {
			return "", err
		}
		if !routed(s) {
			return "", fmt.Errorf("unsupported service type %q", s.Spec.Type)
		}
		named, err := portName(s, port)
		if err != nil {
			return "", err
		}
		if address, ok := endpoint(slices.List(namespace), s, named); ok {
			return address, nil
		}
		return "", fmt.Errorf("no endpoints available for service %q", name)
	})
}

func find(services Services, namespace, name string) (*corev1.Service, error) {
	s, ok := services.Get(namespace, name)
	if !ok {
		return nil, fmt.Errorf("service %q not found", name)
	}
	return s, nil
}

func routed(s *corev1.Service) bool {
	return slices.Contains([]corev1.ServiceType{corev1.ServiceTypeClusterIP, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort}, s.Spec.Type)
}

func portName(s *corev1.Service, port int32) (string, error) {
	for _, p := range s.Spec.Ports {
		if p.Port == port {
			return p.Name, nil
		}
	}
	return "", fmt.Errorf("no service port %d found for service %q", port, s.Name)
}

// endpoint chooses a ready endpoint of a service's port by chance, of the service's first IP family if there is one.
func endpoint(all []*discoveryv1.EndpointSlice, s *corev1.Service, port string) (string, bool) {
	var preferred, others []string
	for _, slice := range all {
		if slice.Labels[discoveryv1.LabelServiceName] != s.Name {
			continue
		}
		addresses := ready(slice, port)
		if len(s.Spec.IPFamilies) > 0 && string(slice.AddressType) == string(s.Spec.IPFamilies[0]) {
			preferred = append(preferred, addresses...)
		} else {
			others = append(others, addresses...)
		}
	}
	if len(preferred) == 0 {
		preferred = others
	}
	if len(preferred) == 0 {
		return "", false
	}
	return preferred[rand.IntN(len(preferred))], true
}

// ready returns the addresses of a slice's ready endpoints.
func ready(slice *discoveryv1.EndpointSlice, port string) []string {
	at := slices.IndexFunc(slice.Ports, func(p discoveryv1.EndpointPort) bool {
		return p.Name != nil && *p.Name == port && p.Port != nil
	})
	if at < 0 {
		return nil
	}
	var out []string
	for _, e := range slice.Endpoints {
		if len(e.Addresses) > 0 && (e.Conditions.Ready == nil || *e.Conditions.Ready) {
			out = append(out, net.JoinHostPort(e.Addresses[0], strconv.Itoa(int(*slice.Ports[at].Port))))
		}
	}
	return out
}
