package endpointslicemirroring_test

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/endpointslicemirroring"
	"github.com/keelson-dev/keelson/controllers/internal/trial"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/lag"
)

var (
	services  = corev1.SchemeGroupVersion.WithResource("services")
	endpoints = corev1.SchemeGroupVersion.WithResource("endpoints")
	resource  = discoveryv1.SchemeGroupVersion.WithResource("endpointslices")
)

type bench struct {
	*testing.T
	api    *controllerstest.API
	events controllerstest.Recorder
	feed   *lag.Source[*discoveryv1.EndpointSlice]
	stored []*corev1.Endpoints // under older rules
	// Of the controller: what it asks, if not the API itself, its options, and where failures are logged.
	client  *trial.Client
	options endpointslicemirroring.Options
	log     *slog.Logger
}

func (b *bench) start(t *testing.T) endpointslicemirroring.Sources {
	b.T, b.api = t, controllerstest.Start(t, controllerstest.Options{})
	b.feed = controllerstest.Source[*discoveryv1.EndpointSlice](b.api, resource)
	detect := informer.Options{DetectMutations: func(err error) { t.Error(err) }}
	return endpointslicemirroring.Sources{
		Services:       informer.New(controllerstest.Source[*corev1.Service](b.api, services), detect),
		Endpoints:      informer.New(trial.Stored[*corev1.Endpoints]{Source: controllerstest.Source[*corev1.Endpoints](b.api, endpoints), Objects: b.stored}, detect),
		EndpointSlices: informer.New(b.feed, detect),
	}
}

// run runs test against a controller; before, if not nil, makes what is there when it starts.
func (b *bench) run(t *testing.T, before, test func(*bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		in := b.start(t)
		var asked endpointslicemirroring.Client = b.api
		if b.client != nil {
			b.client.Client = b.api
			asked = b.client
		}
		if before != nil {
			before(b)
		}
		loop := controllers.NewLoop(endpointslicemirroring.New(in, asked, &b.events, b.options), controllers.Options{Logger: b.log})
		controllerstest.Go(t, in.Services, in.Endpoints, in.EndpointSlices, loop)
		synctest.Wait()
		test(b)
	})
}

func inBubble(t *testing.T, test func(*bench)) {
	t.Helper()
	new(bench).run(t, nil, test)
}

func (b *bench) put(objects ...informer.Object) {
	b.Helper()
	for _, obj := range objects {
		controllerstest.Add(b, b.api, obj)
	}
	synctest.Wait()
}

func at(resource schema.GroupVersionResource, name string) client.Target {
	return client.Target{Resource: resource, Namespace: "ns", Name: name}
}

// change changes what is at a target, as another user.
func change[T runtime.Object](b *bench, at client.Target, change func(T)) {
	b.Helper()
	obj, err := client.As[T](b.api.Others.Get(b.Context(), at))
	if err != nil {
		b.Fatal(err)
	}
	change(obj)
	if _, err := b.api.Others.Update(b.Context(), at, obj, metav1.UpdateOptions{}); err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
}

func (b *bench) remove(at client.Target) {
	b.Helper()
	if err := b.api.Others.Delete(b.Context(), at, metav1.DeleteOptions{}); err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
}

func (b *bench) slices() []discoveryv1.EndpointSlice {
	b.Helper()
	out, err := client.As[*discoveryv1.EndpointSliceList](b.api.Others.List(b.Context(), at(resource, ""), metav1.ListOptions{}))
	if err != nil {
		b.Fatal(err)
	}
	return out.Items
}

// text is "type addresses:ports"; addresses that are not ready have a "-".
func text(slice *discoveryv1.EndpointSlice) string {
	var ips, ports []string
	for _, e := range slice.Endpoints {
		ip := strings.Join(e.Addresses, "+")
		if !*e.Conditions.Ready {
			ip += "-"
		}
		ips = append(ips, ip)
	}
	for _, p := range slice.Ports {
		ports = append(ports, fmt.Sprintf("%s=%d", *p.Name, *p.Port))
	}
	slices.Sort(ports)
	return string(slice.AddressType) + " " + strings.Join(ips, ",") + ":" + strings.Join(ports, ",")
}

func (b *bench) state() []string {
	b.Helper()
	var got []string
	for _, slice := range b.slices() {
		got = append(got, text(&slice))
	}
	slices.Sort(got)
	return got
}

func (b *bench) want(what string, want ...string) {
	b.Helper()
	synctest.Wait()
	if got := b.state(); !slices.Equal(got, want) {
		b.Errorf("%s: slices %q, want %q", what, got, want)
	}
}

func service() *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "db"}, Spec: corev1.ServiceSpec{
		ClusterIP: "10.0.0.1", IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, Ports: []corev1.ServicePort{{Port: 80, Protocol: corev1.ProtocolTCP}},
	}}
}

func custom(subsets ...corev1.EndpointSubset) *corev1.Endpoints {
	return &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "db"}, Subsets: subsets}
}

func addresses(ips ...string) []corev1.EndpointAddress {
	var out []corev1.EndpointAddress
	for _, ip := range ips {
		out = append(out, corev1.EndpointAddress{IP: ip})
	}
	return out
}

func port(name string, number int32) []corev1.EndpointPort {
	return []corev1.EndpointPort{{Name: name, Port: number, Protocol: corev1.ProtocolTCP}}
}

func TestMirrors(t *testing.T) {
	inBubble(t, func(b *bench) {
		e := custom(corev1.EndpointSubset{Addresses: addresses("192.0.2.1", "2001:db8::1"), NotReadyAddresses: addresses("192.0.2.2"), Ports: port("sql", 5432)})
		node, app := "node", "kubernetes.io/h2c"
		e.Subsets[0].Addresses[0].NodeName, e.Subsets[0].Addresses[0].Hostname = &node, "first"
		e.Subsets[0].Addresses[0].TargetRef = &corev1.ObjectReference{Kind: "Pod", Namespace: "ns", Name: "p", UID: "u"}
		e.Subsets[0].Ports[0].AppProtocol = &app
		e.Labels = map[string]string{"l": "v"}
		e.Annotations = map[string]string{"a": "v", corev1.EndpointsLastChangeTriggerTime: "2026-01-01T00:00:00Z", corev1.LastAppliedConfigAnnotation: "{}"}
		b.put(service(), e)
		b.want("new", "IPv4 192.0.2.1,192.0.2.2-:sql=5432", "IPv6 2001:db8::1:sql=5432")
		for _, slice := range b.slices() {
			if slice.GenerateName != "db-" || !maps.Equal(slice.Labels, map[string]string{
				"l": "v", "kubernetes.io/service-name": "db", "endpointslice.kubernetes.io/managed-by": "endpointslicemirroring-controller.k8s.io",
			}) || !maps.Equal(slice.Annotations, map[string]string{"a": "v"}) {
				b.Errorf("slice %+v", slice.ObjectMeta)
			}
			if ref := metav1.GetControllerOf(&slice); ref == nil || ref.Kind != "Endpoints" || ref.APIVersion != "v1" || ref.Name != "db" || !*ref.BlockOwnerDeletion {
				b.Errorf("owner %+v", ref)
			}
			if p := slice.Ports[0]; *p.Protocol != corev1.ProtocolTCP || *p.AppProtocol != app {
				b.Errorf("port %+v", p)
			}
			if slice.AddressType != discoveryv1.AddressTypeIPv4 {
				continue
			}
			if first := slice.Endpoints[0]; *first.NodeName != "node" || *first.Hostname != "first" || first.TargetRef.Name != "p" || first.Conditions.Serving != nil {
				b.Errorf("endpoint %+v", first)
			}
		}
		if events := b.events.Take(); len(events) != 0 {
			b.Errorf("events %q", events)
		}
		b.api.Reset()
		change(b, at(endpoints, "db"), func(e *corev1.Endpoints) { // what is not mirrored
			e.Annotations[corev1.EndpointsLastChangeTriggerTime], e.Annotations[corev1.LastAppliedConfigAnnotation] = "2026-01-02T00:00:00Z", "{ }"
		})
		time.Sleep(time.Hour)
		if writes := b.api.Writes(); len(writes) != 0 {
			b.Errorf("wrote %v", writes)
		}
	})
}

// TestChanges: which slices remain, and which are made of others.
func TestChanges(t *testing.T) {
	a := corev1.EndpointSubset{Addresses: addresses("192.0.2.1"), Ports: port("a", 1)}
	other := corev1.EndpointSubset{Addresses: addresses("192.0.2.2"), Ports: port("b", 2)}
	six := corev1.EndpointSubset{Addresses: addresses("2001:db8::1"), Ports: port("a", 1)}
	unready := corev1.EndpointSubset{NotReadyAddresses: addresses("192.0.2.1"), Ports: port("a", 1)}
	for name, tt := range map[string]struct {
		change func(*corev1.Endpoints)
		want   []string // slices
		writes string   // verbs
	}{
		"nothing":           {func(e *corev1.Endpoints) { e.Finalizers = []string{"x/y"} }, []string{"IPv4 192.0.2.1:a=1"}, ""},
		"another address":   {func(e *corev1.Endpoints) { e.Subsets[0].Addresses = addresses("192.0.2.9") }, []string{"IPv4 192.0.2.9:a=1"}, "update"},
		"one more":          {func(e *corev1.Endpoints) { e.Subsets[0].Addresses = addresses("192.0.2.9", "192.0.2.1") }, []string{"IPv4 192.0.2.1,192.0.2.9:a=1"}, "update"},
		"no longer ready":   {func(e *corev1.Endpoints) { e.Subsets = []corev1.EndpointSubset{unready} }, []string{"IPv4 192.0.2.1-:a=1"}, "update"},
		"a label":           {func(e *corev1.Endpoints) { e.Labels = map[string]string{"l": "v"} }, []string{"IPv4 192.0.2.1:a=1"}, "update"},
		"an annotation":     {func(e *corev1.Endpoints) { e.Annotations = map[string]string{"l": "v"} }, []string{"IPv4 192.0.2.1:a=1"}, "update"},
		"another port":      {func(e *corev1.Endpoints) { e.Subsets[0].Ports = port("b", 2) }, []string{"IPv4 192.0.2.1:b=2"}, "update"},
		"one more port set": {func(e *corev1.Endpoints) { e.Subsets = append(e.Subsets, other) }, []string{"IPv4 192.0.2.1:a=1", "IPv4 192.0.2.2:b=2"}, "create"},
		"another family":    {func(e *corev1.Endpoints) { e.Subsets = []corev1.EndpointSubset{six} }, []string{"IPv6 2001:db8::1:a=1"}, "create delete"},
		"one more family":   {func(e *corev1.Endpoints) { e.Subsets = append(e.Subsets, six) }, []string{"IPv4 192.0.2.1:a=1", "IPv6 2001:db8::1:a=1"}, "create"},
		"no address":        {func(e *corev1.Endpoints) { e.Subsets = nil }, nil, "delete"},
		"skip-mirror": {func(e *corev1.Endpoints) {
			e.Labels = map[string]string{"endpointslice.kubernetes.io/skip-mirror": "true"}
		}, nil, "delete"},
		"skip-mirror is false": {func(e *corev1.Endpoints) {
			e.Labels = map[string]string{"endpointslice.kubernetes.io/skip-mirror": "false"}
		}, []string{"IPv4 192.0.2.1:a=1"}, "update"},
		"a leader election": {func(e *corev1.Endpoints) {
			e.Annotations = map[string]string{"control-plane.alpha.kubernetes.io/leader": ""}
		}, nil, "delete"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bench) {
				b.put(service(), custom(*a.DeepCopy()))
				b.want("before", "IPv4 192.0.2.1:a=1")
				first := b.slices()[0].Name
				b.api.Reset()
				change(b, at(endpoints, "db"), tt.change)
				b.want("after", tt.want...)
				var verbs []string
				for _, w := range b.api.Writes() {
					verbs = append(verbs, w.Verb)
				}
				if got := strings.Join(verbs, " "); got != tt.writes {
					b.Errorf("writes %q, want %q", got, tt.writes)
				}
				if all := b.slices(); tt.writes == "update" && all[0].Name != first {
					b.Errorf("%s became %s", first, all[0].Name)
				}
				// As upstream's, an update says nothing of how the name was made, unless the slice was to be a new one.
				generated := map[string]string{"another port": "db-"}[name]
				if all := b.slices(); tt.writes == "update" && all[0].GenerateName != generated {
					b.Errorf("generateName %q, want %q", all[0].GenerateName, generated)
				}
				e, err := client.As[*corev1.Endpoints](b.api.Others.Get(b.Context(), at(endpoints, "db")))
				if err != nil {
					b.Fatal(err)
				}
				for _, slice := range b.slices() {
					delete(slice.Labels, "kubernetes.io/service-name")
					delete(slice.Labels, "endpointslice.kubernetes.io/managed-by")
					if !maps.Equal(slice.Labels, e.Labels) || !maps.Equal(slice.Annotations, e.Annotations) {
						b.Errorf("slice %+v", slice.ObjectMeta)
					}
				}
			})
		})
	}
}

// TestService: Endpoints are mirrored as long as a service without a selector has their name.
func TestService(t *testing.T) {
	inBubble(t, func(b *bench) {
		mirrored := "IPv4 192.0.2.1:a=1"
		b.put(custom(corev1.EndpointSubset{Addresses: addresses("192.0.2.1"), Ports: port("a", 1)}))
		b.want("no service")
		b.put(service())
		b.want("a service", mirrored)
		change(b, at(services, "db"), func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "db"} })
		b.want("with a selector")
		change(b, at(services, "db"), func(s *corev1.Service) { s.Spec.Selector = nil })
		b.want("and without", mirrored)
		b.remove(at(services, "db")) // and the Endpoints with it
		b.want("gone")
		b.put(custom(corev1.EndpointSubset{Addresses: addresses("192.0.2.1"), Ports: port("a", 1)}), service())
		b.want("back", mirrored)
		b.remove(at(endpoints, "db"))
		b.want("no Endpoints")
	})
}

// TestSameName: Endpoints of the same name as older ones take their slices over.
func TestSameName(t *testing.T) {
	older := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "older",
			Labels:          map[string]string{"kubernetes.io/service-name": "db", "endpointslice.kubernetes.io/managed-by": "endpointslicemirroring-controller.k8s.io"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Endpoints", Name: "db", UID: "older"}},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"192.0.2.1"}, Conditions: discoveryv1.EndpointConditions{Ready: new(bool)}}},
	}
	*older.Endpoints[0].Conditions.Ready = true
	twin := older.DeepCopy()
	twin.Name = "twin"
	new(bench).run(t, func(b *bench) {
		b.put(older, twin, service(), custom(corev1.EndpointSubset{Addresses: addresses("192.0.2.1")}))
	}, func(b *bench) {
		b.want("one of the two", "IPv4 192.0.2.1:")
		slice := b.slices()[0]
		e, err := client.As[*corev1.Endpoints](b.api.Others.Get(b.Context(), at(endpoints, "db")))
		if err != nil {
			b.Fatal(err)
		}
		if slice.Name != "older" || len(slice.OwnerReferences) != 1 || !metav1.IsControlledBy(&slice, e) {
			b.Errorf("slice %+v", slice.ObjectMeta)
		}
	})
}

// TestLimits: what is too much or invalid is not mirrored, and events say so.
func TestLimits(t *testing.T) {
	subset := func(ready, unready []string) corev1.EndpointSubset {
		return corev1.EndpointSubset{Addresses: addresses(ready...), NotReadyAddresses: addresses(unready...), Ports: port("a", 1)}
	}
	invalid := func(n string) string {
		return "Warning InvalidIPAddress Skipped " + n + " invalid IP addresses when mirroring to EndpointSlices"
	}
	many := func(n string) string {
		return "Warning TooManyAddressesToMirror A max of 3 addresses can be mirrored to EndpointSlices per Endpoints subset. " + n + " addresses were skipped"
	}
	for name, tt := range map[string]struct {
		subset corev1.EndpointSubset
		want   []string
		events []string
	}{
		"just enough":         {subset([]string{"192.0.2.1", "2001:db8::1"}, []string{"192.0.2.2"}), []string{"IPv4 192.0.2.1,192.0.2.2-:a=1", "IPv6 2001:db8::1:a=1"}, nil},
		"ready ones first":    {subset([]string{"192.0.2.1", "192.0.2.5"}, []string{"192.0.2.2", "192.0.2.3"}), []string{"IPv4 192.0.2.1,192.0.2.2-,192.0.2.5:a=1"}, []string{many("1")}},
		"too many ready ones": {subset([]string{"192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"}, []string{"192.0.2.5"}), []string{"IPv4 192.0.2.1,192.0.2.2,192.0.2.3:a=1"}, []string{many("2")}},
		"invalid":             {subset([]string{"192.0.2.1", "nonsense"}, []string{"more"}), []string{"IPv4 192.0.2.1:a=1"}, []string{invalid("2")}},
		"both":                {subset([]string{"0", "192.0.2.1", "192.0.2.2"}, []string{"192.0.2.3", "192.0.2.4"}), []string{"IPv4 192.0.2.1,192.0.2.2,192.0.2.3-:a=1"}, []string{invalid("1"), many("2")}},
		"written oddly":       {subset([]string{"192.000.2.01"}, nil), []string{"IPv4 192.0.2.1:a=1"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			e := custom(tt.subset)
			e.UID = "stored"
			b := &bench{stored: []*corev1.Endpoints{e}, options: endpointslicemirroring.Options{MaxEndpoints: 3}}
			b.run(t, nil, func(b *bench) {
				b.put(service())
				var got []string
				for _, slice := range b.slices() {
					slices.SortFunc(slice.Endpoints, func(a, b discoveryv1.Endpoint) int { return strings.Compare(a.Addresses[0], b.Addresses[0]) })
					got = append(got, text(&slice))
				}
				if slices.Sort(got); !slices.Equal(got, tt.want) {
					b.Errorf("slices %q, want %q", got, tt.want)
				}
				events := b.events.Take() // twice, if the first slice is seen before the answer to its creation
				slices.Sort(events)
				if events = slices.Compact(events); !slices.Equal(events, tt.events) {
					b.Errorf("events %q, want %q", events, tt.events)
				}
			})
		})
	}
	inBubble(t, func(b *bench) {
		var ips []string
		for i := range 1001 {
			ips = append(ips, fmt.Sprintf("192.0.%d.%d", i/250, i%250))
		}
		b.put(service(), custom(corev1.EndpointSubset{Addresses: addresses(ips...)}))
		if all := b.slices(); len(all) != 1 || len(all[0].Endpoints) != 1000 {
			b.Errorf("%d slices", len(all))
		}
		if e := b.events.Events(); len(e) == 0 || e[0].Regarding.Kind != "Endpoints" || e[0].Regarding.Name != "db" {
			b.Errorf("events %v", e)
		}
	})
}

// TestRepairsWhatOthersChange: slices of ours only, and those of an earlier process, too.
func TestRepairsWhatOthersChange(t *testing.T) {
	inBubble(t, func(b *bench) {
		mirrored := "IPv4 192.0.2.1:"
		b.put(service(), custom(corev1.EndpointSubset{Addresses: addresses("192.0.2.1")}))
		name := b.slices()[0].Name
		change(b, at(resource, name), func(e *discoveryv1.EndpointSlice) { e.Endpoints = nil })
		b.want("emptied", mirrored)
		b.remove(at(resource, name))
		b.want("removed", mirrored)
		b.put(&discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Namespace: "ns", Name: "foreign", Labels: map[string]string{"kubernetes.io/service-name": "db"}},
			AddressType: discoveryv1.AddressTypeIPv6,
		})
		b.want("somebody's", mirrored, "IPv6 :")
		b.api.Reset()
		time.Sleep(24 * time.Hour)
		if wrote := b.api.Writes(); len(wrote) != 0 {
			b.Errorf("wrote %v", wrote)
		}
	})
}

// TestSlowCache: what the cache does not show yet is not done again.
func TestSlowCache(t *testing.T) {
	inBubble(t, func(b *bench) {
		writes := func(what, want string) {
			b.Helper()
			synctest.Wait()
			var all []string
			for _, w := range b.api.Writes() {
				all = append(all, w.Verb)
			}
			if got := strings.Join(all, " "); got != want {
				b.Errorf("%s: %s, want %s", what, got, want)
			}
			b.api.Reset()
		}
		b.put(service())
		b.feed.Hold()
		b.put(custom(corev1.EndpointSubset{Addresses: addresses("192.0.2.1")}))
		writes("new", "create")
		change(b, at(endpoints, "db"), func(e *corev1.Endpoints) { e.Subsets[0].Addresses = addresses("192.0.2.2") })
		time.Sleep(3500 * time.Millisecond)
		writes("before the slice is seen", "")
		b.feed.Resume()
		writes("when it is seen, at once", "update")
		b.want("in the end", "IPv4 192.0.2.2:")
	})
}

// TestEveryFailure: whichever request fails, the failure is reported and made up for.
func TestEveryFailure(t *testing.T) {
	trial.EveryFailure(t, nil, func(c *trial.Client, log *slog.Logger) (state string) {
		(&bench{client: c, log: log}).run(t, nil, func(b *bench) {
			b.put(service())
			b.put(custom(corev1.EndpointSubset{Addresses: addresses("192.0.2.1", "2001:db8::1"), Ports: port("a", 1)}))
			time.Sleep(time.Minute)
			change(b, at(endpoints, "db"), func(e *corev1.Endpoints) {
				e.Subsets = []corev1.EndpointSubset{{Addresses: addresses("192.0.2.1"), Ports: port("b", 1)}}
			})
			time.Sleep(time.Minute)
			state = strings.Join(b.state(), ", ")
			b.remove(at(endpoints, "db"))
			time.Sleep(time.Minute)
			state += ", then " + strings.Join(b.state(), ", ")
		})
		return state
	})
}

// TestMessages: how failures are told, and how often they are retried.
func TestMessages(t *testing.T) {
	terminating := apierrors.NewForbidden(resource.GroupResource(), "", errors.New("going"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	both := corev1.EndpointSubset{Addresses: addresses("192.0.2.1"), Ports: port("a", 1)}
	for name, tt := range map[string]struct {
		refuse error
		change func(*bench)
		count  int
		want   string
	}{
		"create":      {errors.New("no"), func(b *bench) { b.put(custom(both)) }, 16, `failed to create EndpointSlice for Endpoints ns/db: no`},
		"terminating": {terminating, func(b *bench) { b.put(custom(both)) }, 1, ""},
		"update": {errors.New("no"), func(b *bench) {
			b.api.Heal()
			b.put(custom(both))
			b.api.Reset()
			b.api.Inject(faults.Fault{Resource: "endpointslices", Err: errors.New("no"), Times: -1})
			change(b, at(endpoints, "db"), func(e *corev1.Endpoints) { e.Labels = map[string]string{"l": "v"} })
		}, 16, `failed to update db-00001 EndpointSlice for Endpoints ns/db: no`},
		"delete": {errors.New("no"), func(b *bench) {
			b.api.Heal()
			b.put(custom(both))
			b.api.Reset()
			b.api.Inject(faults.Fault{Resource: "endpointslices", Err: errors.New("no"), Times: -1})
			change(b, at(endpoints, "db"), func(e *corev1.Endpoints) { e.Subsets = nil })
		}, 16, `failed to delete db-00001 EndpointSlice for Endpoints ns/db: no`},
		"remove": {errors.New("no"), func(b *bench) {
			b.api.Heal()
			b.put(custom(both))
			b.api.Reset()
			b.api.Inject(faults.Fault{Resource: "endpointslices", Err: errors.New("no"), Times: -1})
			b.remove(at(services, "db"))
		}, 16, `error(s) deleting 1/1 EndpointSlices for ns/db Endpoints, including: no`},
		"Endpoints being deleted": {nil, func(b *bench) {
			b.remove(at(services, "db"))
			e := custom(both)
			e.Finalizers = []string{"x/y"}
			b.put(e)
			b.remove(at(endpoints, "db"))
			b.put(service())
		}, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			log := &trial.Text{}
			(&bench{log: slog.New(slog.NewTextHandler(log, nil))}).run(t, nil, func(b *bench) {
				b.put(service())
				if tt.refuse != nil {
					b.api.Inject(faults.Fault{Resource: "endpointslices", Err: tt.refuse, Times: -1})
				}
				tt.change(b)
				time.Sleep(24 * time.Hour)
				if got := len(b.api.Writes()); got != tt.count {
					b.Errorf("%d writes, want %d", got, tt.count)
				}
				if tt.want != "" && !strings.Contains(log.String(), tt.want) {
					b.Errorf("logged %s, want %s", log.String(), tt.want)
				}
			})
		})
	}
}
