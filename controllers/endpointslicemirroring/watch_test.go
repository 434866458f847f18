package endpointslicemirroring_test

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/endpointslicemirroring"
	"github.com/keelson-dev/keelson/controllers/internal/trial"
	"github.com/keelson-dev/keelson/informer"
)

// TestWatch: which Endpoints a change concerns.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{}
		in := b.start(t)
		var q trial.Queue
		endpointslicemirroring.New(in, b.api, &b.events, endpointslicemirroring.Options{BatchPeriod: 2 * time.Second}).Watch(&q)
		controllerstest.Go(t, in.Services, in.Endpoints, in.EndpointSlices)
		want := func(what, want string) {
			t.Helper()
			synctest.Wait()
			if got := q.Take(); got != want {
				t.Errorf("%s: %q, want %q", what, got, want)
			}
		}
		b.put(service())
		want("a service", "ns/db")
		change(b, at(services, "db"), func(s *corev1.Service) { s.Labels = map[string]string{"l": "v"} })
		want("that changes", "")
		change(b, at(services, "db"), func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "db"} })
		want("that gets a selector", "ns/db")
		change(b, at(services, "db"), func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "web"} })
		want("another one", "")
		b.remove(at(services, "db"))
		want("and goes", "")
		selects := service()
		selects.Spec.Selector = map[string]string{"app": "db"}
		b.put(selects)
		want("a service with a selector", "")
		change(b, at(services, "db"), func(s *corev1.Service) { s.Spec.Selector = nil })
		want("that loses it", "ns/db")
		b.remove(at(services, "db"))
		want("and goes", "ns/db")
		b.put(custom())
		want("Endpoints", "ns/db")
		skip := map[string]string{"endpointslice.kubernetes.io/skip-mirror": "true"}
		change(b, at(endpoints, "db"), func(e *corev1.Endpoints) { e.Labels = skip })
		want("no longer to be mirrored", "ns/db")
		change(b, at(endpoints, "db"), func(e *corev1.Endpoints) { e.Annotations = map[string]string{"a": "v"} })
		want("and changed", "")
		change(b, at(endpoints, "db"), func(e *corev1.Endpoints) { e.Labels = nil })
		want("to be mirrored", "ns/db")
		b.remove(at(endpoints, "db"))
		want("and gone", "ns/db")
		skipped := custom()
		skipped.Labels = skip
		b.put(skipped)
		want("not to be mirrored", "")
		b.remove(at(endpoints, "db"))
		want("and gone", "")
		b.put(&discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "ours", Labels: map[string]string{
			"kubernetes.io/service-name": "db", "endpointslice.kubernetes.io/managed-by": "endpointslicemirroring-controller.k8s.io",
		}}})
		want("a slice", "ns/db+2s")
	})
}

// TestOtherOwners: slices that have more owners stay as they are.
func TestOtherOwners(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.put(service(), custom(corev1.EndpointSubset{Addresses: addresses("192.0.2.1")}))
		name := b.slices()[0].Name
		for _, other := range []metav1.OwnerReference{
			{APIVersion: "example.com/v1", Kind: "Database", Name: "db", UID: "another"}, {APIVersion: "v1", Kind: "Endpoints", Name: "web", UID: "another"},
		} {
			b.api.Reset()
			change(b, at(resource, name), func(e *discoveryv1.EndpointSlice) { e.OwnerReferences = append(e.OwnerReferences, other) })
			change(b, at(endpoints, "db"), func(e *corev1.Endpoints) {
				metav1.SetMetaDataAnnotation(&e.ObjectMeta, corev1.LastAppliedConfigAnnotation, other.Name)
			})
			time.Sleep(time.Minute)
			synctest.Wait()
			if wrote := b.api.Writes(); len(wrote) != 0 {
				b.Errorf("owned by %s %s, too: wrote %v", other.Kind, other.Name, wrote)
			}
		}
	})
}

func TestRetry(t *testing.T) {
	c := endpointslicemirroring.New(endpointslicemirroring.Sources{EndpointSlices: informer.New[*discoveryv1.EndpointSlice](nil, informer.Options{})}, nil, nil, endpointslicemirroring.Options{})
	if got, want := c.Retry(), (controllers.Retry{First: time.Second, Max: 100 * time.Second, Limit: 15}); got != want {
		t.Errorf("%+v", got)
	}
}
