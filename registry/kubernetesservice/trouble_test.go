package kubernetesservice_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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

// refusing is a store that refuses to create, read or update some records, to report its revision, or to delete in
// time.
type refusing struct {
	interrupted
	create, read, update string // key prefixes of what is refused
	unreadable           bool   // what may not be read is there, and damaged
	revision             bool
	delete               bool
}

func newRefusing() *refusing {
	return &refusing{interrupted: interrupted{Store: memory.New(memory.Options{})}}
}

func (r *refusing) Get(ctx context.Context, key string) (storage.Record, error) {
	record, err := r.Store.Get(ctx, key)
	switch {
	case r.read == "" || !strings.HasPrefix(key, r.read):
		return record, err
	case r.unreadable && err == nil:
		return storage.Record{Key: key, Revision: record.Revision, Err: storage.ErrUnreadable}, storage.ErrUnreadable
	}
	return storage.Record{}, errRefused
}

func (r *refusing) List(ctx context.Context, prefix string, o storage.ListOptions) (storage.Page, error) {
	if r.read != "" && strings.HasPrefix(prefix, r.read) {
		return storage.Page{}, errRefused
	}
	return r.Store.List(ctx, prefix, o)
}

func (r *refusing) Update(ctx context.Context, key string, value []byte, expected int64) (int64, error) {
	if r.update != "" && strings.HasPrefix(key, r.update) {
		return 0, errRefused
	}
	return r.interrupted.Update(ctx, key, value, expected)
}

func (r *refusing) Create(ctx context.Context, key string, value []byte) (int64, error) {
	if r.create != "" && strings.HasPrefix(key, r.create) {
		return 0, errRefused
	}
	return r.interrupted.Create(ctx, key, value)
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
	return r.interrupted.Delete(ctx, key, expected)
}

// Keys of the objects in the store.
const (
	cidrPlace        = "/registry/servicecidrs/kubernetes"
	leasePlace       = "/registry/masterleases/192.0.2.1"
	secondLeasePlace = "/registry/masterleases/192.0.2.2"
	servicePlace     = "/registry/services/specs/default/kubernetes"
	endpointsPlace   = "/registry/services/endpoints/default/kubernetes"
	slicePlace       = "/registry/endpointslices/default/kubernetes"
)

// TestRefusals: a failure is reported, and everything else is done nonetheless.
func TestRefusals(t *testing.T) {
	places := map[string]string{
		cidrPlace: "ServiceCIDR: ", leasePlace: "lease: ", servicePlace: "service: ",
		endpointsPlace: "endpoints: write Endpoints: ", slicePlace: "endpoints: write EndpointSlice: ",
	}
	for refused, want := range places {
		store := newRefusing()
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
	store := newRefusing()
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

// TestRefusedUpdates: a failure to read or to correct what is there is reported.
func TestRefusedUpdates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRefusing()
		r := open(t, store, networks("10.96.0.0/12")...)
		// The ServiceCIDR is made, and its condition is not.
		store.update = cidrPlace
		s, err := kubernetesservice.New(r, store, at("192.0.2.1", 6443))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Once(t.Context()); !errors.Is(err, errRefused) || !strings.HasPrefix(err.Error(), "ServiceCIDR: ") {
			t.Errorf("without the condition: %v", err)
		}
		store.update = ""
		store.read = "/registry/masterleases/"
		if err := s.Once(t.Context()); err == nil || strings.Count(err.Error(), errRefused.Error()) != 2 ||
			!strings.HasPrefix(err.Error(), "lease: ") || !strings.Contains(err.Error(), "\nendpoints: ") {
			t.Errorf("without leases: %v", err)
		}
		store.read = ""
		if err := s.Once(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for place, want := range map[string]string{leasePlace: "lease: ", servicePlace: "service: ", endpointsPlace: "endpoints: write Endpoints: "} {
			change(t, r, "services", func(svc *corev1.Service) { svc.Spec.Ports[0].Port = 444 })
			change(t, r, "endpoints", func(e *corev1.Endpoints) { e.Subsets[0].Ports[0].Port = 1 })
			again, err := kubernetesservice.New(r, store, at("192.0.2.1", 6443))
			if err != nil {
				t.Fatal(err)
			}
			store.update = place
			if err := again.Once(t.Context()); !errors.Is(err, errRefused) || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("without a correction of %s: %v", place, err)
			}
			store.update = ""
			synctest.Wait()
		}
		o := at("192.0.2.1", 6443)
		o.Networks = networks("10.96.0.0/12", "fd00::/112")
		dual, err := kubernetesservice.New(r, store, o)
		if err != nil {
			t.Fatal(err)
		}
		store.update = cidrPlace
		if err := dual.Once(t.Context()); !errors.Is(err, errRefused) || !strings.HasPrefix(err.Error(), "ServiceCIDR: ") {
			t.Errorf("without the second network: %v", err)
		}
	})
}

// TestLeavingIsTold: a server logs what keeps it from removing its endpoint, and nothing else.
func TestLeavingIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(store *refusing) error
		want    int
	}{
		"cleanly": {func(*refusing) error { return nil }, 0},
		"lease gone": {func(store *refusing) error {
			record, err := store.Get(context.Background(), leasePlace)
			if err != nil {
				return err
			}
			return store.remove(record)
		}, 0},
		"lease going":    {func(store *refusing) error { store.key, store.meanwhile = leasePlace, store.remove; return nil }, 0},
		"lease renewed":  {func(store *refusing) error { store.key, store.meanwhile = leasePlace, store.touch; return nil }, 0},
		"lease kept":     {func(store *refusing) error { store.delete = true; return nil }, 1},
		"lease unread":   {func(store *refusing) error { store.read = leasePlace; return nil }, 1},
		"endpoints kept": {func(store *refusing) error { store.update = endpointsPlace; return nil }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newRefusing()
				r := open(t, store, networks("10.96.0.0/12")...)
				crashed, err := kubernetesservice.New(r, store, at("192.0.2.1", 6443))
				if err != nil {
					t.Fatal(err)
				}
				if err := crashed.Once(t.Context()); err != nil {
					t.Fatal(err)
				}
				var log strings.Builder
				o := at("192.0.2.1", 6443)
				o.Logger = slog.New(slog.NewTextHandler(&log, nil))
				end := begin(t, r, store, o)
				if log.Len() > 0 {
					t.Errorf("after a crash of the only server: %s", &log)
				}
				if err := c.prepare(store); err != nil {
					t.Fatal(err)
				}
				end()
				if got := strings.Count(log.String(), "cannot remove this server's endpoint of the service kubernetes"); got != c.want || strings.Count(log.String(), "\n") != c.want {
					t.Errorf("want %d warnings: %s", c.want, &log)
				}
				if _, err := store.Store.Get(t.Context(), leasePlace); errors.Is(err, storage.ErrNotFound) != (c.want == 0 || store.update != "") {
					t.Errorf("its lease: %v", err)
				}
			})
		})
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
		store := newRefusing()
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
			func(svc *corev1.Service) {
				svc.Spec.Type, svc.Spec.AllocateLoadBalancerNodePorts = corev1.ServiceTypeLoadBalancer, new(false)
				svc.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster
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
		dual    bool
	}{"others than both": {network: "10.97.0.0/16", dual: true}, "ours": {network: "10.96.0.0/12", ready: true}, "others": {network: "10.97.0.0/16"}, "going": {network: "10.96.0.0/12", going: true}, "others, going": {network: "10.97.0.0/16", going: true}} {
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
		if c.dual {
			o.Networks = networks("10.96.0.0/12", "fd00::/112")
		}
		s, err := kubernetesservice.New(r, store, o)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Once(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		o.Report = nil // nobody has to be told
		if s, err = kubernetesservice.New(r, store, o); err == nil {
			err = s.Once(t.Context())
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		got, _ := get[*networkingv1.ServiceCIDR](t, r, gr.Group, gr.Resource, "", "kubernetes")
		if (len(got.Status.Conditions) == 1) != c.ready || len(got.Spec.CIDRs) != 1 || got.Spec.CIDRs[0] != c.network || (told == 1) != (c.network != "10.96.0.0/12" && !c.going) {
			t.Errorf("%s: %+v, told %d times", name, got.Status, told)
		}
	}
}

var _ storage.Store = (*refusing)(nil)
