package apiservice_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/apiservice"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/internal/trial"
	"github.com/keelson-dev/keelson/informer"
)

// check is a Checker.
type check func(ctx context.Context) error

func (c check) Check(ctx context.Context, _ *apiregistrationv1.APIService) error { return c(ctx) }

func passes(context.Context) error { return nil }

// show returns the condition of an APIService.
func show(s *apiregistrationv1.APIService) string {
	for _, c := range s.Status.Conditions {
		if c.Type == apiregistrationv1.Available {
			return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
		}
	}
	return "none"
}

// TestAvailable: a service of type ClusterIP has to have the port, and a ready endpoint with it; others are just asked.
func TestAvailable(t *testing.T) {
	ip := corev1.ServiceTypeClusterIP
	other := remote("example.com")
	other.Spec.Service.Port = new(int32(8443))
	without := endpoints("api", "https", nil)
	without.Ports[0].Port = nil
	nameless := endpoints("api", "https", nil)
	nameless.Ports[0].Name = nil
	for name, test := range map[string]struct {
		of      *apiregistrationv1.APIService
		objects []informer.Object
		err     error
		want    string
	}{
		"no service":      {of: remote("example.com"), want: `False ServiceNotFound: service/api in "ns" is not present`},
		"an external one": {of: remote("example.com"), objects: []informer.Object{served(corev1.ServiceTypeExternalName, "https")}, want: "True Passed: all checks passed"},
		"another port": {
			of: other, objects: []informer.Object{served(ip, "https"), endpoints("api", "https", nil)},
			want: `False ServicePortError: service/api in "ns" is not listening on port 8443`,
		},
		"no endpoints": {
			of: remote("example.com"), objects: []informer.Object{served(ip, "https"), endpoints("apis", "https", nil)},
			want: `False EndpointsNotFound: cannot find endpointslices for service/api in "ns"`,
		},
		"none is ready": {
			of: remote("example.com"), objects: []informer.Object{served(ip, "https"), endpoints("api", "https", new(false))},
			want: `False MissingEndpoints: endpointslices for service/api in "ns" have no addresses with port name "https"`,
		},
		"none has the port": {
			of: remote("example.com"), objects: []informer.Object{served(ip, "https"), endpoints("api", "other", nil)},
			want: `False MissingEndpoints: endpointslices for service/api in "ns" have no addresses with port name "https"`,
		},
		"the port has no number": {
			of: remote("example.com"), objects: []informer.Object{served(ip, "https"), without},
			want: `False MissingEndpoints: endpointslices for service/api in "ns" have no addresses with port name "https"`,
		},
		"the port has no name": {
			of: remote("example.com"), objects: []informer.Object{served(ip, "https"), nameless},
			want: `False MissingEndpoints: endpointslices for service/api in "ns" have no addresses with port name "https"`,
		},
		"ready":            {of: remote("example.com"), objects: []informer.Object{served(ip, "https"), endpoints("api", "https", new(true))}, want: "True Passed: all checks passed"},
		"perhaps ready":    {of: remote("example.com"), objects: []informer.Object{served(ip, "https"), endpoints("api", "https", nil)}, want: "True Passed: all checks passed"},
		"it does not work": {of: remote("example.com"), objects: []informer.Object{served(ip, "https"), endpoints("api", "https", nil)}, err: errors.New("503"), want: "False FailedDiscoveryCheck: 503"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				c := apiservice.NewAvailability(w.in, w.api, check(func(context.Context) error { return test.err }))
				w.add(append(test.objects, test.of)...)
				w.run()
				again, err := w.reconcile(c, test.of.Name)
				if again != 30*time.Second || !errors.Is(err, test.err) {
					t.Errorf("again after %v, %v", again, err)
				}
				if got := show(w.get(test.of.Name)); got != test.want {
					t.Errorf("%s\nwant %s", got, test.want)
				}
			})
		})
	}
}

// TestLocallyAvailable: what the server itself serves is available, whatever was said of it, and is not checked again.
func TestLocallyAvailable(t *testing.T) {
	inBubble(t, func(w *world) {
		c := apiservice.NewAvailability(w.in, w.api, check(func(context.Context) error { t.Error("it is asked"); return nil }))
		s := remote("example.com")
		s.Spec.Service = nil
		w.add(s)
		w.run()
		for range 2 {
			if again, err := w.reconcile(c, s.Name); again != 0 || err != nil {
				t.Errorf("again after %v, %v", again, err)
			}
			if got := show(w.get(s.Name)); got != "True Local: Local APIServices are always available" {
				t.Error(got)
			}
			w.patch(at(s.Name), `{"metadata":{"labels":{"a":"b"}}}`)
		}
		if n := len(w.api.Writes()); n != 0 {
			t.Errorf("%d writes of what is there", n)
		}
		if again, err := w.reconcile(c, "v1.missing.example.com"); again != 0 || err != nil {
			t.Errorf("one that is gone: again after %v, %v", again, err)
		}
	})
}

// TestTransitions: the time is that of the last change of the status; other conditions stay.
func TestTransitions(t *testing.T) {
	inBubble(t, func(w *world) {
		var fails error
		c := apiservice.NewAvailability(w.in, w.api, check(func(context.Context) error { return fails }))
		s := remote("example.com")
		w.add(s, served(corev1.ServiceTypeExternalName, "https"))
		status := at(s.Name)
		status.Subresource = "status"
		w.patch(status, `{"status":{"conditions":[{"type":"Other","status":"True","lastTransitionTime":null}]}}`)
		w.run()
		var writes []int
		for _, fails = range []error{nil, nil, errors.New("a"), errors.New("b"), nil} {
			time.Sleep(time.Minute)
			_, _ = w.reconcile(c, s.Name)
			got := w.get(s.Name).Status.Conditions
			if len(got) != 2 || got[0].Type != "Other" {
				t.Fatalf("%+v", got)
			}
			writes = append(writes, len(w.api.Writes()), int(time.Since(got[1].LastTransitionTime.Time)/time.Minute))
		}
		if got, want := fmt.Sprint(writes), "[1 0 1 1 2 0 3 1 4 0]"; got != want {
			t.Errorf("writes, and minutes since the transition: %s, want %s", got, want)
		}
	})
}

// TestWriteFails: a failed write is tried again, but not that of an APIService that is gone, nor one after the end.
func TestWriteFails(t *testing.T) {
	inBubble(t, func(w *world) {
		c := apiservice.NewAvailability(w.in, w.api, check(passes))
		s := remote("example.com")
		w.add(s, served(corev1.ServiceTypeExternalName, "https"))
		w.run()
		w.api.Inject(faults.Fault{Verb: "update", Resource: "apiservices/status", Err: trial.ErrDown})
		if again, err := w.reconcile(c, s.Name); again != 0 || !errors.Is(err, trial.ErrDown) {
			t.Errorf("again after %v, %v", again, err)
		}
		w.api.Inject(faults.Fault{Verb: "update", Err: apierrors.NewNotFound(at("").Resource.GroupResource(), s.Name)})
		if _, err := w.reconcile(c, s.Name); err != nil {
			t.Error(err)
		}
		w.api.Reset()
		ctx, cancel := context.WithCancel(w.Context())
		ends := apiservice.NewAvailability(w.in, w.api, check(func(context.Context) error { cancel(); return errors.New("it ends") }))
		if _, err := ends.Reconcile(ctx, controllers.Key{Name: s.Name}); !errors.Is(err, context.Canceled) || len(w.api.Writes()) != 0 {
			t.Errorf("%v, %v", err, w.api.Writes())
		}
	})
}

// TestAvailabilityWatches: an APIService is checked when it changes, and when its service or endpoints do.
func TestAvailabilityWatches(t *testing.T) {
	inBubble(t, func(w *world) {
		c := apiservice.NewAvailability(w.in, w.api, check(passes))
		if c.Name() != "RemoteAvailabilityController" || c.Retry() != (controllers.Retry{First: 5 * time.Millisecond, Max: 30 * time.Second}) {
			t.Errorf("%s, %+v", c.Name(), c.Retry())
		}
		var q trial.Queue
		if n := len(c.Watch(&q)); n != 3 {
			t.Errorf("%d caches", n)
		}
		w.run()
		expect := func(what, want string) {
			t.Helper()
			synctest.Wait()
			if got := q.Take(); got != want {
				t.Errorf("%s: queued %q, want %q", what, got, want)
			}
		}
		w.add(remote("a.example.com"))
		expect("a new one", "v1.a.example.com")
		other := remote("b.example.com")
		other.Spec.Service.Name = "other"
		elsewhere := remote("c.example.com")
		elsewhere.Spec.Service.Namespace = "elsewhere"
		own := remote("d.example.com")
		own.Spec.Service = nil
		w.add(other, elsewhere, own)
		q.Take()
		w.patch(at("v1.a.example.com"), `{"metadata":{"labels":{"a":"b"}}}`)
		expect("a changed one", "v1.a.example.com")
		w.add(served(corev1.ServiceTypeClusterIP, "https"))
		expect("a new service", "v1.a.example.com")
		w.patch(service("api"), `{"metadata":{"labels":{"a":"b"}}}`)
		expect("a changed service", "v1.a.example.com")
		w.add(endpoints("api", "https", nil))
		expect("new endpoints", "v1.a.example.com")
		w.patch(slice("api-1"), `{"metadata":{"labels":{"a":"b"}}}`)
		expect("changed endpoints", "v1.a.example.com")
		w.delete(slice("api-1"))
		expect("no endpoints", "v1.a.example.com")
		w.delete(service("api"))
		expect("no service", "v1.a.example.com")
		w.delete(at("v1.a.example.com"))
		expect("it is gone", "")
	})
}

// TestNeverSynced: nothing is said of a cluster before its caches are filled.
func TestNeverSynced(t *testing.T) {
	inBubble(t, func(w *world) {
		w.add(remote("example.com"), served(corev1.ServiceTypeExternalName, "https"))
		loop := controllers.NewLoop(apiservice.NewAvailability(w.in, w.api, check(passes)), controllers.Options{})
		controllerstest.Go(w, w.in.APIServices, w.in.EndpointSlices, loop)
		synctest.Wait()
		if n := len(w.api.Writes()); n != 0 {
			t.Errorf("%d writes without services", n)
		}
		controllerstest.Go(w, w.in.Services)
		synctest.Wait()
		if got := show(w.get("v1.example.com")); got != "True Passed: all checks passed" {
			t.Error(got)
		}
	})
}
