package clusterdns

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/keelson-dev/keelson/client"
)

// manager is the value of the label that says who keeps an EndpointSlice.
const manager = "cluster-dns.keelson.dev"

// createService creates the service, unless there is one.
func (e *extended) createService(ctx context.Context) error {
	at := client.Target{Resource: corev1.SchemeGroupVersion.WithResource("services"), Namespace: Namespace}
	named := at
	named.Name = Service
	_, err := e.server.Get(ctx, named)
	if apierrors.IsNotFound(err) {
		_, err = e.server.Create(ctx, at, e.dns.service(), metav1.CreateOptions{})
	}
	if err == nil || apierrors.IsAlreadyExists(err) { // another server was faster
		return nil
	}
	return fmt.Errorf("service %s: %w", Service, err)
}

// service is the service as kubeadm's, without metrics and without a selector.
func (d *DNS) service() *corev1.Service {
	port := func(name string, protocol corev1.Protocol) corev1.ServicePort {
		return corev1.ServicePort{Name: name, Protocol: protocol, Port: 53, TargetPort: intstr.FromInt32(int32(d.options.Port))}
	}
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: Service, Labels: map[string]string{
			"k8s-app": "kube-dns", "kubernetes.io/cluster-service": "true", "kubernetes.io/name": "CoreDNS",
		}},
		Spec: corev1.ServiceSpec{
			ClusterIP: d.options.Address.String(),
			Ports:     []corev1.ServicePort{port("dns", corev1.ProtocolUDP), port("dns-tcp", corev1.ProtocolTCP)},
		},
	}
}

// retry is how long to wait after a failure.
const retry = time.Second

// publish writes the endpoints whenever the servers change, until the context ends.
func (e *extended) publish(ctx context.Context) error {
	for ctx.Err() == nil {
		again := (<-chan time.Time)(nil)
		if err := e.write(ctx); err != nil && ctx.Err() == nil {
			e.dns.log.Warn("endpoints of the cluster's DNS were not written", "error", err)
			again = time.After(retry)
		}
		select {
		case <-ctx.Done():
		case <-e.dns.changed:
		case <-again:
		}
	}
	return nil
}

// write brings the EndpointSlice up to date.
func (e *extended) write(ctx context.Context) error {
	want := e.dns.slice()
	at := client.Target{Resource: discoveryv1.SchemeGroupVersion.WithResource("endpointslices"), Namespace: Namespace}
	named := at
	named.Name = want.Name
	obj, err := e.server.Get(ctx, named)
	switch {
	case apierrors.IsNotFound(err):
		_, err = e.server.Create(ctx, at, want, metav1.CreateOptions{})
		return err
	case err != nil:
		return err
	}
	have, ok := obj.(*discoveryv1.EndpointSlice)
	if !ok {
		return errors.New("not an EndpointSlice")
	}
	if equality.Semantic.DeepEqual(have.Endpoints, want.Endpoints) && equality.Semantic.DeepEqual(have.Ports, want.Ports) {
		return nil
	}
	have = have.DeepCopy()
	have.Endpoints, have.Ports = want.Endpoints, want.Ports
	_, err = e.server.Update(ctx, named, have, metav1.UpdateOptions{})
	return err
}

// slice lists the servers.
func (d *DNS) slice() *discoveryv1.EndpointSlice {
	port := func(name string, protocol corev1.Protocol) discoveryv1.EndpointPort {
		return discoveryv1.EndpointPort{Name: &name, Protocol: &protocol, Port: new(int32(d.options.Port))}
	}
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: Service, Labels: map[string]string{
			discoveryv1.LabelServiceName: Service, discoveryv1.LabelManagedBy: manager, "k8s-app": "kube-dns",
		}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{port("dns", corev1.ProtocolUDP), port("dns-tcp", corev1.ProtocolTCP)},
	}
	servers := d.listed()
	for _, node := range slices.Sorted(maps.Keys(servers)) {
		s.Endpoints = append(s.Endpoints, endpoint(node, servers[node]))
	}
	return s
}

func endpoint(node string, address netip.Addr) discoveryv1.Endpoint {
	return discoveryv1.Endpoint{
		Addresses: []string{address.String()}, NodeName: &node,
		Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(false)},
	}
}
