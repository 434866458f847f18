package kubernetesservice_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/codec"
	"github.com/keelson-dev/keelson/registry/kubernetesservice"
	"github.com/keelson-dev/keelson/registry/networking"
	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/memory"
)

// errRefused means that certainly nothing was written.
var errRefused = fmt.Errorf("refused: %w", storage.ErrTooLarge)

// refusing is a store that refuses to create some records, to report its revision, or to delete in time.
type refusing struct {
	*memory.Store
	create   string // key prefix of refused creates
	revision bool
	delete   bool
}

func (r *refusing) Create(ctx context.Context, key string, value []byte) (int64, error) {
	if r.create != "" && strings.HasPrefix(key, r.create) {
		return 0, errRefused
	}
	return r.Store.Create(ctx, key, value)
}

func (r *refusing) Revision(ctx context.Context) (int64, error) {
	if r.revision {
		return 0, errRefused
	}
	return r.Store.Revision(ctx)
}

func (r *refusing) Delete(ctx context.Context, key string, expected int64) (int64, error) {
	if r.delete {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	return r.Store.Delete(ctx, key, expected)
}

// Keys of the objects in the store.
const (
	cidrPlace      = "/registry/servicecidrs/kubernetes"
	leasePlace     = "/registry/masterleases/192.0.2.1"
	servicePlace   = "/registry/services/specs/default/kubernetes"
	endpointsPlace = "/registry/services/endpoints/default/kubernetes"
	slicePlace     = "/registry/endpointslices/default/kubernetes"
)

// TestRefusals: a failure is reported, and everything else is done nonetheless.
func TestRefusals(t *testing.T) {
	places := map[string]string{
		cidrPlace: "ServiceCIDR: ", leasePlace: "lease: ", servicePlace: "service: ",
		endpointsPlace: "endpoints: write Endpoints: ", slicePlace: "endpoints: write EndpointSlice: ",
	}
	for refused, want := range places {
		store := &refusing{Store: memory.New(memory.Options{})}
		r := open(t, store, networks("10.96.0.0/12")...)
		s, err := kubernetesservice.New(r, store, at("192.0.2.1", 6443))
		if err != nil {
			t.Fatal(err)
		}
		store.create = refused
		if err := s.Once(t.Context()); !errors.Is(err, errRefused) && refused != leasePlace || err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("without %s: %v, want %s", refused, err, want)
		}
		for place := range places {
			_, err := store.Get(t.Context(), place)
			there := place != refused && (refused != leasePlace || place != endpointsPlace && place != slicePlace) && (refused != endpointsPlace || place != slicePlace) &&
				(refused != cidrPlace || place != servicePlace)
			if (err == nil) != there {
				t.Errorf("without %s, %s: %v", refused, place, err)
			}
		}
		store.create = ""
		if err := s.Once(t.Context()); err != nil {
			t.Errorf("without refusals: %v", err)
		}
		for place := range places {
			if _, err := store.Get(t.Context(), place); err != nil {
				t.Errorf("in the end, %s: %v", place, err)
			}
		}
	}
	store := &refusing{Store: memory.New(memory.Options{})}
	r := open(t, store, networks("10.96.0.0/12")...)
	s, err := kubernetesservice.New(r, store, kubernetesservice.Options{Networks: networks("10.96.0.0/12")})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Once(t.Context()); err != nil {
		t.Fatal(err)
	}
	store.revision = true
	if err := s.Once(t.Context()); !errors.Is(err, errRefused) || !strings.HasPrefix(err.Error(), "ServiceCIDR: ") {
		t.Errorf("without a revision: %v", err)
	}
}

// TestUnreadableObjects: an unreadable object is reported, and not overwritten.
func TestUnreadableObjects(t *testing.T) {
	for place, want := range map[string]string{cidrPlace: "ServiceCIDR: ", servicePlace: "service: ", endpointsPlace: "endpoints: write Endpoints: ", slicePlace: "endpoints: delete EndpointSlice of another family: "} {
		store := memory.New(memory.Options{})
		if _, err := store.Create(t.Context(), place, []byte("k8s\x00\xff")); err != nil {
			t.Fatal(err)
		}
		r := open(t, store, networks("10.96.0.0/12")...)
		s, err := kubernetesservice.New(r, store, at("192.0.2.1", 6443))
		if err != nil {
			t.Fatal(err)
		}
		err = s.Once(t.Context())
		found := false
		for line := range strings.SplitSeq(errString(err), "\n") {
			found = found || strings.HasPrefix(line, want) && strings.Contains(line, "corrupt object")
		}
		if !found {
			t.Errorf("%s: %v", place, err)
		}
		if record, err := store.Get(t.Context(), place); err != nil || string(record.Value) != "k8s\x00\xff" {
			t.Errorf("%s became %q, %v", place, record.Value, err)
		}
	}
}

func errString(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestLeaseCounts: each renewal increments the count, starting from a readable lease's, and drops all else in
// the lease.
func TestLeaseCounts(t *testing.T) {
	good, err := codec.Stored(corev1.SchemeGroupVersion.WithKind("Endpoints"), &corev1.Endpoints{
		ObjectMeta: metav1.ObjectMeta{Generation: 7},
		Subsets:    []corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{{IP: "192.0.2.7"}}}, {}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		value string
		want  int64
	}{
		"good":    {string(good), 8},
		"damaged": {`{"kind":"Endpoints","apiVersion":"v1","metadata":{"generation":7,"name":"half"},"subsets":"none"}`, 1},
		"none":    {"", 1},
	} {
		store := memory.New(memory.Options{})
		if c.value != "" {
			if _, err := store.Create(t.Context(), leasePlace, []byte(c.value)); err != nil {
				t.Fatal(err)
			}
		}
		r := open(t, store, networks("10.96.0.0/12")...)
		s, err := kubernetesservice.New(r, store, at("192.0.2.1", 6443))
		if err != nil {
			t.Fatal(err)
		}
		for round := range int64(2) {
			if err := s.Once(t.Context()); err != nil {
				t.Fatal(err)
			}
			record, err := store.Get(t.Context(), leasePlace)
			if err != nil {
				t.Fatal(err)
			}
			var lease corev1.Endpoints
			if _, err := codec.Decode(record.Value, &lease); err != nil || lease.Generation != c.want+round || lease.Name != "" ||
				len(lease.Subsets) != 1 || len(lease.Subsets[0].Addresses) != 1 || lease.Subsets[0].Addresses[0].IP != "192.0.2.1" {
				t.Errorf("%s, round %d: %+v, %v", name, round, lease, err)
			}
		}
	}
}

// TestLeavingIsBounded: a server that ends waits five seconds for a hanging store, and no longer.
func TestLeavingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &refusing{Store: memory.New(memory.Options{})}
		r := open(t, store, networks("10.96.0.0/12")...)
		end := begin(t, r, store, at("192.0.2.1", 6443))
		store.delete = true
		began := time.Now()
		if end(); time.Since(began) != 5*time.Second {
			t.Errorf("it took %v", time.Since(began))
		}
	})
}

// TestLeavingCorrectsPorts: like upstream's, a server that ends corrects the ports of the others' endpoints.
func TestLeavingCorrectsPorts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(memory.Options{})
		r := open(t, store, networks("10.96.0.0/12")...)
		one, two := begin(t, r, store, at("192.0.2.1", 6443)), begin(t, r, store, at("192.0.2.2", 6443))
		time.Sleep(5 * time.Second) // between two rounds of both
		change(t, r, "endpoints", func(e *corev1.Endpoints) { e.Subsets[0].Ports[0].Port = 1 })
		one()
		synctest.Wait()
		if got := endpoints(t, r); got != "192.0.2.2 https=6443/TCP" {
			t.Errorf("left are %s", got)
		}
		two()
	})
}

// TestMorePorts: a starting server removes an extra port even if everything else is correct.
func TestMorePorts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(memory.Options{})
		r := open(t, store, networks("10.96.0.0/12")...)
		for _, f := range []func(*corev1.Service){
			func(svc *corev1.Service) {
				svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{Name: "more", Port: 9, TargetPort: intstr.FromInt32(9), Protocol: corev1.ProtocolTCP})
			},
			func(svc *corev1.Service) {
				svc.Spec.Type, svc.Spec.ExternalTrafficPolicy = corev1.ServiceTypeNodePort, corev1.ServiceExternalTrafficPolicyCluster
			},
			func(svc *corev1.Service) { svc.Spec.Ports[0].Port = 444 },
		} {
			for range 2 {
				s, err := kubernetesservice.New(r, store, at("192.0.2.1", 6443))
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Once(t.Context()); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				svc, _ := get[*corev1.Service](t, r, "", "services", "default", "kubernetes")
				if len(svc.Spec.Ports) != 1 || svc.Spec.Ports[0].Port != 443 || svc.Spec.Type != corev1.ServiceTypeClusterIP {
					t.Errorf("corrected to %+v", svc.Spec)
				}
				change(t, r, "services", f)
			}
		}
	})
}

// TestForeignCIDRIsKept: a ServiceCIDR of other networks, or one being deleted, is not marked ready.
func TestForeignCIDRIsKept(t *testing.T) {
	gr := schema.GroupResource{Group: "networking.k8s.io", Resource: "servicecidrs"}
	for name, c := range map[string]struct {
		network string
		going   bool
		ready   bool
	}{"ours": {network: "10.96.0.0/12", ready: true}, "others": {network: "10.97.0.0/16"}, "going": {network: "10.96.0.0/12", going: true}, "others, going": {network: "10.97.0.0/16", going: true}} {
		store := memory.New(memory.Options{})
		r := open(t, store, networks("10.96.0.0/12")...)
		cidr := networking.Default(networks(c.network))
		cidr.Finalizers = []string{"example.com/hold"}
		if _, err := r.Access().Create(t.Context(), gr, cidr); err != nil {
			t.Fatal(err)
		}
		if c.going {
			if err := r.Access().Delete(t.Context(), registry.ObjectKey{Resource: gr, Name: "kubernetes"}, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		told := 0
		o := kubernetesservice.Options{Networks: networks("10.96.0.0/12"), Report: func(registry.Object, string, string) { told++ }}
		s, err := kubernetesservice.New(r, store, o)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Once(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		got, _ := get[*networkingv1.ServiceCIDR](t, r, gr.Group, gr.Resource, "", "kubernetes")
		if (len(got.Status.Conditions) == 1) != c.ready || (told == 1) != (c.network != "10.96.0.0/12" && !c.going) {
			t.Errorf("%s: %+v, told %d times", name, got.Status, told)
		}
	}
}

var _ storage.Store = (*refusing)(nil)
