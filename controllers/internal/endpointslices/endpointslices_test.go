package endpointslices_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/internal/endpointslices"
	"github.com/keelson-dev/keelson/controllers/internal/trial"
	"github.com/keelson-dev/keelson/informer"
)

func TestTracker(t *testing.T) {
	key := controllers.Key{Namespace: "ns", Name: "web"}
	slice := func(uid types.UID, generation int64) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", UID: uid, Generation: generation, Labels: map[string]string{"kubernetes.io/service-name": "web"}}}
	}
	tracker := endpointslices.NewTracker()
	is := func(what string, got, want bool) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %t", what, got)
		}
	}
	is("nothing written, nothing there", tracker.Behind(key), false)
	is("nothing written, something there", tracker.Behind(key, slice("a", 1)), false)
	is("never written", tracker.Foreign(slice("a", 1)), true)
	is("never written, of no generation", tracker.Foreign(slice("a", 0)), true)
	tracker.Wrote(slice("a", 2))
	is("older", tracker.Foreign(slice("a", 1)), false)
	is("as written", tracker.Foreign(slice("a", 2)), false)
	is("newer", tracker.Foreign(slice("a", 3)), true)
	is("missing", tracker.Behind(key), true)
	is("another only", tracker.Behind(key, slice("b", 1)), true)
	is("an older one is there", tracker.Behind(key, slice("a", 1)), true)
	is("it is there", tracker.Behind(key, slice("a", 2)), false)
	is("it is there, and another", tracker.Behind(key, slice("b", 1), slice("a", 3)), false)
	tracker.ExpectDeletion(slice("a", 2))
	is("still there", tracker.Behind(key, slice("a", 2)), true)
	is("there no longer", tracker.Behind(key), false)
	is("deleted by us", tracker.Deleted(slice("a", 2)), false)
	is("seen to go, in a list from before", tracker.Behind(key, slice("a", 2)), true)
	is("seen to go", tracker.Behind(key), false)
	tracker.Wrote(slice("a", 2))
	is("deleted by somebody", tracker.Deleted(slice("a", 2)), true)
	is("foreign when it comes back", tracker.Foreign(slice("a", 2)), true)
	tracker.Wrote(slice("a", 3))
	is("an answer that comes later", tracker.Behind(key), false)
	is("never written, deleted", tracker.Deleted(slice("a", 2)), true)
	tracker.ExpectDeletion(slice("a", 2))
	is("deleted by both", tracker.Deleted(slice("a", 2)), true)
	is("and read", tracker.Behind(key), false)
	tracker.Wrote(slice("a", 2))
	is("written again", tracker.Behind(key), true)
	tracker.Forget(key)
	is("forgotten", tracker.Behind(key), false)
}

func TestSameEndpoint(t *testing.T) {
	yes, no, node, zone, host := true, false, "node", "zone", "host"
	base := discoveryv1.Endpoint{
		Addresses: []string{"1.2.3.4"}, NodeName: &node, Zone: &zone,
		Conditions: discoveryv1.EndpointConditions{Ready: &yes, Serving: &yes, Terminating: &no},
		TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: "ns", Name: "a", UID: "u", ResourceVersion: "1"},
	}
	other := "other"
	for name, tt := range map[string]struct {
		change          func(*discoveryv1.Endpoint)
		sameKey, inside bool // whether it is the same endpoint, and whether it is as it was
	}{
		"equal":          {func(*discoveryv1.Endpoint) {}, true, true},
		"pointers":       {func(e *discoveryv1.Endpoint) { n := "node"; e.NodeName = &n }, true, true},
		"version":        {func(e *discoveryv1.Endpoint) { e.TargetRef.ResourceVersion = "2" }, true, true},
		"node":           {func(e *discoveryv1.Endpoint) { e.NodeName = &other }, true, false},
		"no node":        {func(e *discoveryv1.Endpoint) { e.NodeName = nil }, true, false},
		"zone":           {func(e *discoveryv1.Endpoint) { e.Zone = &other }, true, false},
		"ready":          {func(e *discoveryv1.Endpoint) { e.Conditions.Ready = &no }, true, false},
		"ready, unknown": {func(e *discoveryv1.Endpoint) { e.Conditions.Ready = nil }, true, false},
		"serving":        {func(e *discoveryv1.Endpoint) { e.Conditions.Serving = &no }, true, false},
		"terminating":    {func(e *discoveryv1.Endpoint) { e.Conditions.Terminating = &yes }, true, false},
		"uid":            {func(e *discoveryv1.Endpoint) { e.TargetRef.UID = "v" }, true, false},
		"no target":      {func(e *discoveryv1.Endpoint) { e.TargetRef = nil }, false, false},
		"target":         {func(e *discoveryv1.Endpoint) { e.TargetRef.Name = "b" }, false, false},
		"namespace":      {func(e *discoveryv1.Endpoint) { e.TargetRef.Namespace = "other" }, false, false},
		"address":        {func(e *discoveryv1.Endpoint) { e.Addresses = []string{"1.2.3.5"} }, false, true},
		"no address":     {func(e *discoveryv1.Endpoint) { e.Addresses = nil }, false, true},
		"two addresses":  {func(e *discoveryv1.Endpoint) { e.Addresses = []string{"1.2.3.4", "1.2.3.5"} }, false, true},
		"hostname":       {func(e *discoveryv1.Endpoint) { e.Hostname = &host }, false, true},
	} {
		changed := *base.DeepCopy()
		tt.change(&changed)
		for range 2 {
			if got := endpointslices.KeyOf(&base) == endpointslices.KeyOf(&changed); got != tt.sameKey {
				t.Errorf("%s: the same endpoint %t", name, got)
			}
			if got := endpointslices.Same(&base, &changed); got != tt.inside {
				t.Errorf("%s: as it was %t", name, got)
			}
			if got := endpointslices.Same(&changed, &base); got != tt.inside {
				t.Errorf("%s: the other way round %t", name, got)
			}
		}
	}
	ab, ba := discoveryv1.Endpoint{Addresses: []string{"a", "b"}}, discoveryv1.Endpoint{Addresses: []string{"b", "a"}}
	if endpointslices.KeyOf(&ab) != endpointslices.KeyOf(&ba) {
		t.Error("the order of addresses matters")
	}
	if endpointslices.KeyOf(&ab) == endpointslices.KeyOf(&discoveryv1.Endpoint{Addresses: []string{"a", "c"}}) {
		t.Error("the second of two addresses does not matter")
	}
	bare := discoveryv1.Endpoint{}
	if !endpointslices.Same(&bare, &discoveryv1.Endpoint{}) {
		t.Error("two without anything differ")
	}
}

func TestPortKey(t *testing.T) {
	name, empty, number, zero, tcp, udp, app := "http", "", int32(80), int32(0), corev1.ProtocolTCP, corev1.ProtocolUDP, "h2c"
	ports := []discoveryv1.EndpointPort{
		{Name: &empty}, {Name: &name}, {Port: &zero}, {Port: &number}, {Protocol: &tcp}, {Protocol: &udp}, {AppProtocol: &app},
		{Name: &name, Port: &number, Protocol: &tcp}, {Name: &name, Port: &number, Protocol: &udp}, {Name: &name, Port: &number, Protocol: &tcp, AppProtocol: &app},
	}
	seen := map[string]int{endpointslices.PortKey(nil): -1}
	for i, p := range ports {
		key := endpointslices.PortKey([]discoveryv1.EndpointPort{p})
		if j, twice := seen[key]; twice {
			t.Errorf("ports %d and %d have one key", i, j)
		}
		seen[key] = i
	}
	a, b := ports[7], ports[8]
	if endpointslices.PortKey([]discoveryv1.EndpointPort{a, b}) != endpointslices.PortKey([]discoveryv1.EndpointPort{b, a}) {
		t.Error("the order of ports matters")
	}
}

// late is a client whose answers come after somebody has deleted what was written, and after that was seen.
type late struct{ *controllerstest.API }

func (l late) Create(ctx context.Context, t client.Target, obj runtime.Object, o metav1.CreateOptions) (runtime.Object, error) {
	got, err := l.API.Create(ctx, t, obj, o)
	if err != nil {
		return nil, err
	}
	t.Name = got.(*discoveryv1.EndpointSlice).Name
	err = l.Others.Delete(ctx, t, metav1.DeleteOptions{})
	synctest.Wait()
	return got, err
}

// TestDeletedLater: a service is enqueued when the deletion is seen that it waits for.
func TestDeletedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := controllerstest.Start(t, controllerstest.Options{})
		source := controllerstest.Source[*discoveryv1.EndpointSlice](api, discoveryv1.SchemeGroupVersion.WithResource("endpointslices"))
		in := informer.New(source, informer.Options{})
		all := endpointslices.New(in, api, "us")
		var q trial.Queue
		all.Watch(&q, time.Second)
		controllerstest.Go(t, in)
		key := controllers.Key{Namespace: "ns", Name: "web"}
		if err := all.Create(t.Context(), &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web-1", Labels: map[string]string{
				discoveryv1.LabelServiceName: "web", discoveryv1.LabelManagedBy: "us",
			}},
			AddressType: discoveryv1.AddressTypeIPv4,
		}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		existing, current := all.Of(key)
		if len(existing) != 1 || !current {
			t.Fatalf("%d, %t", len(existing), current)
		}
		source.Hold()
		if err := all.Delete(t.Context(), existing[0]); err != nil {
			t.Fatal(err)
		}
		if _, current := all.Of(key); current {
			t.Error("the deletion is not waited for")
		}
		q.Take()
		source.Resume()
		synctest.Wait()
		if got := q.Take(); got != "ns/web" {
			t.Errorf("enqueued %q", got)
		}
		if existing, current := all.Of(key); len(existing) != 0 || !current {
			t.Errorf("%d, %t", len(existing), current)
		}
	})
}

// TestDeletedBeforeTheAnswer: a slice that somebody deletes at once is not waited for.
func TestDeletedBeforeTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := controllerstest.Start(t, controllerstest.Options{})
		in := informer.New(controllerstest.Source[*discoveryv1.EndpointSlice](api, discoveryv1.SchemeGroupVersion.WithResource("endpointslices")), informer.Options{})
		all := endpointslices.New(in, late{api}, "us")
		var q trial.Queue
		all.Watch(&q, time.Second)
		controllerstest.Go(t, in)
		synctest.Wait()
		key := controllers.Key{Namespace: "ns", Name: "web"}
		slice := &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", GenerateName: "web-", Labels: map[string]string{
				discoveryv1.LabelServiceName: "web", discoveryv1.LabelManagedBy: "us",
			}},
			AddressType: discoveryv1.AddressTypeIPv4,
		}
		if err := all.Create(t.Context(), slice); err != nil {
			t.Fatal(err)
		}
		if got, current := all.Of(key); len(got) != 0 || !current {
			t.Errorf("waits for %v", got)
		}
		if got := q.Take(); got != "ns/web+1s" {
			t.Errorf("enqueued %q", got)
		}
	})
}
