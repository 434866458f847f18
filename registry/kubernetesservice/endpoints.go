package kubernetesservice

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/registry"
)

// keepEndpoints makes the endpoints those of the live servers; with ports set, it corrects their ports, too.
func (s *Service) keepEndpoints(ctx context.Context, ports bool) error {
	addresses, err := s.live(ctx)
	if err != nil {
		return err
	}
	if len(addresses) == 0 && !s.ending {
		return errNone
	}
	err = s.put(ctx, schema.GroupResource{Resource: "endpoints"}, func(current registry.Object) registry.Object {
		return s.endpoints(current, addresses, ports)
	})
	if err != nil {
		return fmt.Errorf("write Endpoints: %w", err)
	}
	slices := schema.GroupResource{Group: discoveryv1.GroupName, Resource: "endpointslices"}
	if err := s.dropSlice(ctx, slices); err != nil {
		return fmt.Errorf("delete EndpointSlice of another family: %w", err)
	}
	err = s.put(ctx, slices, func(current registry.Object) registry.Object { return s.slice(current, addresses, ports) })
	if err != nil {
		return fmt.Errorf("write EndpointSlice: %w", err)
	}
	return nil
}

// put creates or updates the object with the service's name to the result of wanted.
func (s *Service) put(ctx context.Context, gr schema.GroupResource, wanted func(current registry.Object) registry.Object) error {
	res, ok := s.registry.Resource(gr)
	if !ok {
		return errors.New("not served")
	}
	for {
		item, err := res.Get(ctx, Namespace, Name, "0")
		if err == nil && equality.Semantic.DeepEqual(wanted(item.Object), item.Object) {
			return nil
		}
		if err == nil {
			_, _, err = res.Update(ctx, Namespace, Name, func(_ context.Context, current registry.Object) (registry.Object, error) {
				if current == nil {
					return nil, &registry.Error{Err: registry.ErrNotFound, Resource: gr, Name: Name}
				}
				return wanted(current), nil
			}, registry.UpdateOptions{})
		}
		if !errors.Is(err, registry.ErrNotFound) {
			return err
		}
		if _, err = s.registry.Access().Create(ctx, gr, wanted(nil)); !errors.Is(err, registry.ErrExists) {
			return err
		}
	}
}

// endpoints returns the desired Endpoints, given the current ones; current may be nil.
func (s *Service) endpoints(current registry.Object, addresses []string, ports bool) *corev1.Endpoints {
	e := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: Name}}
	if current != nil {
		e = current.DeepCopyObject().(*corev1.Endpoints)
	}
	// The EndpointSlice exists already, so the controller need not mirror the Endpoints.
	metav1.SetMetaDataLabel(&e.ObjectMeta, discoveryv1.LabelSkipMirror, "true")
	if len(addresses) == 0 {
		e.Subsets = nil
		return e
	}
	if len(e.Subsets) != 1 {
		e.Subsets = make([]corev1.EndpointSubset, 1)
	}
	subset := &e.Subsets[0]
	subset.Addresses, subset.NotReadyAddresses = nil, nil
	for _, address := range addresses {
		subset.Addresses = append(subset.Addresses, corev1.EndpointAddress{IP: address})
	}
	if len(subset.Ports) == 0 || ports {
		subset.Ports = []corev1.EndpointPort{{Name: portName, Port: int32(s.options.Port), Protocol: corev1.ProtocolTCP}}
	}
	return e
}

// slice returns the desired EndpointSlice, given the current one; current may be nil.
func (s *Service) slice(current registry.Object, addresses []string, ports bool) *discoveryv1.EndpointSlice {
	e := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: Name}, AddressType: s.addressType()}
	if current != nil {
		e = current.DeepCopyObject().(*discoveryv1.EndpointSlice)
	}
	e.Labels = map[string]string{discoveryv1.LabelServiceName: Name}
	e.Endpoints = nil
	if len(addresses) == 0 {
		e.Ports = nil
		return e
	}
	for _, address := range addresses {
		e.Endpoints = append(e.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)},
		})
	}
	if len(e.Ports) == 0 || ports {
		e.Ports = []discoveryv1.EndpointPort{{Name: new(portName), Port: new(int32(s.options.Port)), Protocol: new(corev1.ProtocolTCP)}}
	}
	return e
}

func (s *Service) addressType() discoveryv1.AddressType {
	if s.options.Address.Is4() {
		return discoveryv1.AddressTypeIPv4
	}
	return discoveryv1.AddressTypeIPv6
}

// dropSlice deletes the slice with the service's name if it is of the other family, which is immutable.
func (s *Service) dropSlice(ctx context.Context, gr schema.GroupResource) error {
	res, ok := s.registry.Resource(gr)
	if !ok {
		return errors.New("not served")
	}
	item, err := res.Get(ctx, Namespace, Name, "0")
	if errors.Is(err, registry.ErrNotFound) {
		return nil
	}
	if err != nil || item.Object.(*discoveryv1.EndpointSlice).AddressType == s.addressType() {
		return err
	}
	uid := item.Object.GetUID()
	key := registry.ObjectKey{Resource: gr, Namespace: Namespace, Name: Name}
	err = s.registry.Access().Delete(ctx, key, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if errors.Is(err, registry.ErrNotFound) || errors.Is(err, registry.ErrConflict) {
		return nil
	}
	return err
}
