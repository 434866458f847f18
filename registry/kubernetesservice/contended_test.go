package kubernetesservice_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/kubernetesservice"
	"github.com/keelson-dev/keelson/registry/networking"
	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/memory"
)

// interrupted is a store in which something else happens before the next write of a key, which fails if that fails.
type interrupted struct {
	*memory.Store
	key       string
	meanwhile func(record storage.Record) error // as it is before the write; for a creation, as it would be after it
}

func (i *interrupted) interrupt(ctx context.Context, key string, value []byte) error {
	do := i.meanwhile
	if do == nil || key != i.key {
		return nil
	}
	i.meanwhile = nil
	record, err := i.Get(ctx, key)
	if errors.Is(err, storage.ErrNotFound) {
		record, err = storage.Record{Key: key, Value: value}, nil
	}
	if err != nil {
		return err
	}
	return do(record)
}

func (i *interrupted) Create(ctx context.Context, key string, value []byte) (int64, error) {
	if err := i.interrupt(ctx, key, value); err != nil {
		return 0, err
	}
	return i.Store.Create(ctx, key, value)
}

func (i *interrupted) Update(ctx context.Context, key string, value []byte, expected int64) (int64, error) {
	if err := i.interrupt(ctx, key, value); err != nil {
		return 0, err
	}
	return i.Store.Update(ctx, key, value, expected)
}

func (i *interrupted) Delete(ctx context.Context, key string, expected int64) (int64, error) {
	if err := i.interrupt(ctx, key, nil); err != nil {
		return 0, err
	}
	return i.Store.Delete(ctx, key, expected)
}

// make, touch and remove are what another server may do at that moment.
func (i *interrupted) make(record storage.Record) error {
	_, err := i.Store.Create(context.Background(), record.Key, record.Value)
	return err
}

func (i *interrupted) remove(record storage.Record) error {
	_, err := i.Store.Delete(context.Background(), record.Key, record.Revision)
	return err
}

func (i *interrupted) touch(record storage.Record) error {
	_, err := i.Store.Update(context.Background(), record.Key, record.Value, record.Revision)
	return err
}

// TestOwnLease: a server replaces its lease if it cannot be read, and does not consider itself dead if it cannot renew it.
func TestOwnLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRefusing()
		r := open(t, store, networks("10.96.0.0/12")...)
		s, err := kubernetesservice.New(r, store, at("192.0.2.1", 6443))
		if err != nil {
			t.Fatal(err)
		}
		revision := func() int64 {
			record, err := store.Store.Get(t.Context(), leasePlace)
			if err != nil {
				t.Fatal(err)
			}
			return record.Revision
		}
		if err := s.Once(t.Context()); err != nil {
			t.Fatal(err)
		}
		before := revision()
		store.read, store.unreadable = leasePlace, true
		if err := s.Once(t.Context()); err != nil || revision() == before {
			t.Errorf("an unreadable lease is not replaced: %v", err)
		}
		before, store.read, store.update = revision(), "", leasePlace
		for range 3 {
			time.Sleep(10 * time.Second)
			if err := s.Once(t.Context()); !errors.Is(err, errRefused) || !strings.HasPrefix(err.Error(), "lease: ") || strings.Contains(err.Error(), "endpoints") {
				t.Errorf("without renewal: %v", err)
			}
		}
		if got := endpoints(t, r); got != "192.0.2.1 https=6443/TCP" || revision() != before {
			t.Errorf("without renewal %s, revision %d, was %d", got, revision(), before)
		}
	})
}

// TestContended: what somebody else makes, changes or deletes at the same moment is no failure.
func TestContended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &interrupted{Store: memory.New(memory.Options{})}
		r := open(t, store, networks("10.96.0.0/12")...)
		one, err := kubernetesservice.New(r, store, at("192.0.2.1", 6443))
		if err != nil {
			t.Fatal(err)
		}
		two, err := kubernetesservice.New(r, store, at("192.0.2.2", 6443))
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			server    *kubernetesservice.Service
			key       string
			meanwhile func(storage.Record) error
		}{{one, cidrPlace, store.make}, {one, leasePlace, store.touch}, {one, leasePlace, store.remove}, {two, secondLeasePlace, store.make}} {
			store.key, store.meanwhile = c.key, c.meanwhile
			if err := c.server.Once(t.Context()); err != nil || store.meanwhile != nil {
				t.Errorf("%s: %v", c.key, err)
			}
			synctest.Wait()
		}
		if got := endpoints(t, r); got != "192.0.2.1,192.0.2.2 https=6443/TCP" {
			t.Error(got)
		}
	})
}

// TestObjectsContended: an object that another server makes differently or deletes at the same moment is no failure, and
// what is missing is made again.
func TestObjectsContended(t *testing.T) {
	cidrs := schema.GroupResource{Group: "networking.k8s.io", Resource: "servicecidrs"}
	services, ends := schema.GroupResource{Resource: "services"}, schema.GroupResource{Resource: "endpoints"}
	named := metav1.ObjectMeta{Namespace: "default", Name: "kubernetes"}
	create := func(gr schema.GroupResource, obj registry.Object) func(context.Context, registry.Access) error {
		return func(ctx context.Context, other registry.Access) error {
			_, err := other.Create(ctx, gr, obj)
			return err
		}
	}
	remove := func(gr schema.GroupResource) func(context.Context, registry.Access) error {
		return func(ctx context.Context, other registry.Access) error {
			return other.Delete(ctx, registry.ObjectKey{Resource: gr, Namespace: "default", Name: "kubernetes"}, metav1.DeleteOptions{})
		}
	}
	for name, c := range map[string]struct {
		key       string
		meanwhile func(context.Context, registry.Access) error
		ip        string // the service's in the end, if not the first
		running   bool   // a server has made everything before, and another one with another port starts
		again     bool   // the next round repairs it
	}{
		"ServiceCIDR made": {key: cidrPlace, meanwhile: create(cidrs, networking.Default(networks("10.96.0.0/12")))},
		"service made": {key: servicePlace, meanwhile: create(services, &corev1.Service{ObjectMeta: named, Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIP: "10.96.0.9", Ports: []corev1.ServicePort{{Name: "https", Port: 443, Protocol: corev1.ProtocolTCP}}}}), ip: "10.96.0.9"},
		"endpoints made":    {key: endpointsPlace, meanwhile: create(ends, &corev1.Endpoints{ObjectMeta: named})},
		"endpoints deleted": {key: endpointsPlace, meanwhile: remove(ends), running: true},
		"service deleted":   {key: servicePlace, meanwhile: remove(services), running: true, again: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &interrupted{Store: memory.New(memory.Options{}), key: c.key}
				r, other := open(t, store, networks("10.96.0.0/12")...), open(t, store.Store, networks("10.96.0.0/12")...)
				port := 6443
				server := func() *kubernetesservice.Service {
					s, err := kubernetesservice.New(r, store, at("192.0.2.1", port))
					if err != nil {
						t.Fatal(err)
					}
					return s
				}
				if c.running {
					if err := server().Once(t.Context()); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
					port = 7443
				}
				store.meanwhile = func(storage.Record) error { return c.meanwhile(t.Context(), other.Access()) }
				s := server()
				if err := s.Once(t.Context()); (err != nil) != c.again || c.again && !errors.Is(err, registry.ErrNotFound) || store.meanwhile != nil {
					t.Errorf("%v, interrupted %t", err, store.meanwhile == nil)
				}
				synctest.Wait()
				if err := s.Once(t.Context()); err != nil {
					t.Error(err)
				}
				synctest.Wait()
				if got, want := endpoints(t, r), fmt.Sprintf("192.0.2.1 https=%d/TCP", port); got != want {
					t.Errorf("%s, want %s", got, want)
				}
				svc, ok := get[*corev1.Service](t, r, "", "services", "default", "kubernetes")
				if !ok || svc.Spec.ClusterIP != cmp.Or(c.ip, "10.96.0.1") || len(svc.Spec.Ports) != 1 || svc.Spec.Ports[0].Port != 443 {
					t.Errorf("service %+v", svc)
				}
				if cidr, _ := get[*networkingv1.ServiceCIDR](t, r, cidrs.Group, cidrs.Resource, "", "kubernetes"); cidr == nil || len(cidr.Status.Conditions) != 1 {
					t.Errorf("ServiceCIDR %+v", cidr)
				}
			})
		})
	}
}

// TestExpiry: a lease that was not renewed for one and a half intervals is deleted, unless somebody else does so or its
// server returns at that moment.
func TestExpiry(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile func(*interrupted) func(storage.Record) error
		want      string
	}{
		"alone":   {func(*interrupted) func(storage.Record) error { return nil }, ""},
		"deleted": {func(store *interrupted) func(storage.Record) error { return store.remove }, ""},
		"renewed": {func(store *interrupted) func(storage.Record) error { return store.touch }, ""},
		"refused": {func(*interrupted) func(storage.Record) error {
			return func(storage.Record) error { return errRefused }
		}, "endpoints: lease of 192.0.2.2: " + errRefused.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &interrupted{Store: memory.New(memory.Options{}), key: secondLeasePlace}
				r := open(t, store, networks("10.96.0.0/12")...)
				for _, address := range []string{"192.0.2.2", "192.0.2.1"} {
					s, err := kubernetesservice.New(r, store, at(address, 6443))
					if err != nil {
						t.Fatal(err)
					}
					if err := s.Once(t.Context()); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
					if address != "192.0.2.1" {
						continue
					}
					for _, after := range []time.Duration{15*time.Second - 1, 1} {
						if got := endpoints(t, r); got != "192.0.2.1,192.0.2.2 https=6443/TCP" {
							t.Errorf("before its end: %s", got)
						}
						if time.Sleep(after); after == 1 {
							store.meanwhile = c.meanwhile(store)
						}
						if err := s.Once(t.Context()); errString(err) != c.want && after == 1 || err != nil && after != 1 {
							t.Errorf("%v, want %q", err, c.want)
						}
						synctest.Wait()
					}
				}
				if got := endpoints(t, r); (got == "192.0.2.1 https=6443/TCP") != (c.want == "") {
					t.Errorf("after its end: %s", got)
				}
			})
		})
	}
}

// TestSliceContended: a slice of the other family is replaced even if somebody else does so at the same moment; a failure
// to delete it is reported.
func TestSliceContended(t *testing.T) {
	slices := schema.GroupResource{Group: "discovery.k8s.io", Resource: "endpointslices"}
	key := registry.ObjectKey{Resource: slices, Namespace: "default", Name: "kubernetes"}
	slice := func(of discoveryv1.AddressType) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes"}, AddressType: of}
	}
	for name, c := range map[string]struct {
		meanwhile func(ctx context.Context, other registry.Access) error
		want      string
	}{
		"deleted": {func(ctx context.Context, other registry.Access) error {
			return other.Delete(ctx, key, metav1.DeleteOptions{})
		}, ""},
		"replaced": {func(ctx context.Context, other registry.Access) error {
			if err := other.Delete(ctx, key, metav1.DeleteOptions{}); err != nil {
				return err
			}
			_, err := other.Create(ctx, slices, slice(discoveryv1.AddressTypeIPv4))
			return err
		}, ""},
		"kept": {func(context.Context, registry.Access) error { return errRefused }, "endpoints: delete EndpointSlice of another family: "},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &interrupted{Store: memory.New(memory.Options{}), key: slicePlace}
				r, other := open(t, store, networks("10.96.0.0/12")...), open(t, store.Store, networks("10.96.0.0/12")...)
				if _, err := r.Access().Create(t.Context(), slices, slice(discoveryv1.AddressTypeIPv6)); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				store.meanwhile = func(storage.Record) error { return c.meanwhile(t.Context(), other.Access()) }
				s, err := kubernetesservice.New(r, store, at("192.0.2.1", 6443))
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Once(t.Context()); errors.Is(err, errRefused) != (c.want != "") || !strings.HasPrefix(errString(err), c.want) || c.want == "" && err != nil {
					t.Errorf("%v, want %q", err, c.want)
				}
				if synctest.Wait(); c.want != "" {
					return
				}
				if got := endpoints(t, r); got != "192.0.2.1 https=6443/TCP" {
					t.Error(got)
				}
				if got, _ := get[*discoveryv1.EndpointSlice](t, r, slices.Group, slices.Resource, "default", "kubernetes"); got.AddressType != discoveryv1.AddressTypeIPv4 {
					t.Errorf("of type %s", got.AddressType)
				}
			})
		})
	}
}

// TestLeavingWithoutLease: a server whose lease others have removed leaves the endpoints to them.
func TestLeavingWithoutLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &interrupted{Store: memory.New(memory.Options{})}
		r := open(t, store, networks("10.96.0.0/12")...)
		one, two := begin(t, r, store, at("192.0.2.1", 6443)), begin(t, r, store, at("192.0.2.2", 6443))
		time.Sleep(5 * time.Second) // between two rounds of both
		record, err := store.Get(t.Context(), leasePlace)
		if err != nil {
			t.Fatal(err)
		}
		if err := store.remove(record); err != nil {
			t.Fatal(err)
		}
		one()
		synctest.Wait()
		if got := endpoints(t, r); got != "192.0.2.1,192.0.2.2 https=6443/TCP" {
			t.Errorf("left are %s", got)
		}
		time.Sleep(10 * time.Second)
		if got := endpoints(t, r); got != "192.0.2.2 https=6443/TCP" {
			t.Errorf("later %s", got)
		}
		two()
	})
}

// TestReturningServer: a server that was not stopped cleanly takes its endpoint off before it serves again, so that clients do not
// come before it can renew its lease; one that has reconciled the objects already stays.
func TestReturningServer(t *testing.T) {
	for name, c := range map[string]struct {
		once bool // it reconciles the objects before it runs
		want string
	}{"after a crash": {false, "192.0.2.2 https=6443/TCP"}, "after a start": {true, "192.0.2.1,192.0.2.2 https=6443/TCP"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newRefusing()
				r := open(t, store, networks("10.96.0.0/12")...)
				server := func(address string) *kubernetesservice.Service {
					s, err := kubernetesservice.New(r, store, at(address, 6443))
					if err != nil {
						t.Fatal(err)
					}
					return s
				}
				crashed := server("192.0.2.1")
				for _, s := range []*kubernetesservice.Service{crashed, server("192.0.2.2")} {
					if err := s.Once(t.Context()); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
				}
				returned := server("192.0.2.1")
				if c.once {
					if err := returned.Once(t.Context()); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
				}
				store.create = leasePlace // from now on
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- returned.Run(ctx) }()
				synctest.Wait()
				if got := endpoints(t, r); got != c.want {
					t.Errorf("%s, want %s", got, c.want)
				}
				cancel()
				if err := <-done; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestLastPort: a server's port may be the last one.
func TestLastPort(t *testing.T) {
	for port, good := range map[int]bool{0: false, 1: true, 65535: true, 65536: false} {
		if _, err := kubernetesservice.New(nil, nil, at("192.0.2.1", port)); (err == nil) != good {
			t.Errorf("%d: %v", port, err)
		}
	}
}
