package endpointslice_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/endpointslice"
	"github.com/keelson-dev/keelson/controllers/internal/trial"
)

// podsAt are ready pods with these last bytes of their addresses.
func podsAt(last ...int) []*corev1.Pod {
	var all []*corev1.Pod
	for _, n := range last {
		p := pod(fmt.Sprintf("p%02d", n), fmt.Sprintf("1.2.3.%d", n))
		p.Namespace = "ns"
		all = append(all, p)
	}
	return all
}

// sliceWith is the slice that the service has for such pods, at most 100.
func sliceWith(t *testing.T, s *corev1.Service, name string, last ...int) *discoveryv1.EndpointSlice {
	t.Helper()
	create, _, _, _ := endpointslice.Plan(s, podsAt(last...), nil, 100)
	if len(create) != 1 {
		t.Fatalf("%d slices", len(create))
	}
	create[0].Name = name
	return create[0]
}

// planned is "+addresses" of slices to create, "name=addresses" of those to update, and "-name" of those to delete.
func planned(s *corev1.Service, all []*corev1.Pod, existing []*discoveryv1.EndpointSlice, most int) string {
	create, update, remove, _ := endpointslice.Plan(s, all, existing, most)
	var out []string
	addresses := func(slice *discoveryv1.EndpointSlice) string {
		var all []string
		for _, e := range slice.Endpoints {
			all = append(all, strings.TrimPrefix(e.Addresses[0], "1.2.3."))
		}
		return strings.Join(all, ",")
	}
	for _, slice := range create {
		out = append(out, "+"+addresses(slice))
	}
	for _, slice := range update {
		out = append(out, slice.Name+"="+addresses(slice))
	}
	for _, slice := range remove {
		out = append(out, "-"+slice.Name)
	}
	return strings.Join(out, " ")
}

// TestPlaces: where new endpoints go, with at most four in a slice.
func TestPlaces(t *testing.T) {
	s := service(http())
	s.Namespace, s.UID = "ns", "u"
	bare := func(name string) *discoveryv1.EndpointSlice {
		slice := sliceWith(t, s, name, 1)
		slice.Endpoints = nil
		return slice
	}
	with := func(name string, last ...int) *discoveryv1.EndpointSlice { return sliceWith(t, s, name, last...) }
	for name, tt := range map[string]struct {
		pods     []int
		existing []*discoveryv1.EndpointSlice
		want     string
	}{
		"the fullest that changes first":     {[]int{1, 2, 3, 4, 9}, []*discoveryv1.EndpointSlice{with("a", 1, 11), with("b", 2, 3, 4, 12)}, "a=1 b=2,3,4,9"},
		"one that fits best":                 {[]int{1, 2, 3, 9}, []*discoveryv1.EndpointSlice{with("a", 1), with("b", 2, 3)}, "b=2,3,9"},
		"the first of two that fit as well":  {[]int{1, 2, 9}, []*discoveryv1.EndpointSlice{with("a", 1), with("b", 2)}, "a=1,9"},
		"none that has room for some only":   {[]int{1, 2, 3, 8, 9}, []*discoveryv1.EndpointSlice{with("a", 1, 2, 3)}, "+8,9"},
		"one with just room enough":          {[]int{1, 2, 8, 9}, []*discoveryv1.EndpointSlice{with("a", 1, 2)}, "a=1,2,8,9"},
		"a slice's worth, to one of its own": {[]int{6, 7, 8, 9}, []*discoveryv1.EndpointSlice{bare("a")}, "+6,7,8,9"},
		"more than that":                     {[]int{1, 5, 6, 7, 8, 9}, []*discoveryv1.EndpointSlice{with("a", 1)}, "+5,6,7,8 a=1,9"},
		"an empty one":                       {[]int{9}, []*discoveryv1.EndpointSlice{bare("a")}, "a=9"},
		"nothing new":                        {[]int{1, 2}, []*discoveryv1.EndpointSlice{with("a", 1, 2)}, ""},
		"an empty one is kept":               {[]int{1, 2}, []*discoveryv1.EndpointSlice{with("a", 1, 2), bare("b")}, ""},
		"one that has none left is not":      {[]int{1, 2}, []*discoveryv1.EndpointSlice{with("a", 1, 2), with("b", 3)}, "-b"},
	} {
		if got := planned(s, podsAt(tt.pods...), tt.existing, 4); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

// TestEmptySlice: a service without endpoints has one slice without any, and without ports, which is brought to that.
func TestEmptySlice(t *testing.T) {
	s := service(http())
	s.Namespace, s.UID = "ns", "u"
	for name, tt := range map[string]struct {
		change func(*discoveryv1.EndpointSlice)
		want   string
	}{
		"as it is": {func(*discoveryv1.EndpointSlice) {}, ""},
		"endpoints": {func(e *discoveryv1.EndpointSlice) {
			e.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{"1.2.3.4"}}}
		}, "a="},
		"ports":  {func(e *discoveryv1.EndpointSlice) { e.Ports = []discoveryv1.EndpointPort{{}} }, "a="},
		"labels": {func(e *discoveryv1.EndpointSlice) { e.Labels["x"] = "y" }, "a="},
		"an owner more": {func(e *discoveryv1.EndpointSlice) {
			e.OwnerReferences = append(e.OwnerReferences, metav1.OwnerReference{Name: "x"})
		}, "a="},
		"another owner": {func(e *discoveryv1.EndpointSlice) { e.OwnerReferences[0].UID = "before" }, "+ -a"},
		"another kind":  {func(e *discoveryv1.EndpointSlice) { e.OwnerReferences[0].Kind = "Other" }, "+ -a"},
		"a newer kind":  {func(e *discoveryv1.EndpointSlice) { e.OwnerReferences[0].APIVersion = "v2" }, "+ -a"},
	} {
		create, _, _, _ := endpointslice.Plan(s, nil, nil, 4)
		if slice := create[0]; len(create) != 1 || slice.Ports == nil || slice.Endpoints == nil || len(slice.Ports)+len(slice.Endpoints) > 0 {
			t.Fatalf("%d slices: %+v", len(create), slice)
		}
		create[0].Name = "a"
		tt.change(create[0])
		if got := planned(s, nil, create, 4); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

// TestSliceLabels: slices have the labels of their service, but for those that say whose they are.
func TestSliceLabels(t *testing.T) {
	const service1, managed, headless = "kubernetes.io/service-name", "endpointslice.kubernetes.io/managed-by", "service.kubernetes.io/headless"
	for ip, want := range map[string]string{"10.0.0.1": "", "None": " " + headless + ":"} {
		s := service(http())
		s.Namespace, s.UID, s.Spec.ClusterIP = "ns", "u", ip
		s.Labels = map[string]string{"l": "v", service1: "x", managed: "x", headless: "x"}
		slice := sliceWith(t, s, "a", 1)
		if got := fmt.Sprint(slice.Labels); got != "map["+managed+":endpointslice-controller.k8s.io "+service1+":web l:v"+want+"]" {
			t.Errorf("%s: labels %v", ip, slice.Labels)
		}
		if got := planned(s, podsAt(1), []*discoveryv1.EndpointSlice{slice}, 4); got != "" {
			t.Errorf("%s: as it is: %s", ip, got)
		}
		slice.Labels["l"] = "w"
		if got := planned(s, podsAt(1), []*discoveryv1.EndpointSlice{slice}, 4); got != "a=1" {
			t.Errorf("%s: another label: %s", ip, got)
		}
	}
}

// TestPortOrder: the order of a service's ports does not show.
func TestPortOrder(t *testing.T) {
	ports := []corev1.ServicePort{port("a", intstr.FromInt32(1)), port("b", intstr.FromInt32(2)), port("c", intstr.FromInt32(3)), port("d", intstr.FromInt32(4))}
	names := func() string {
		var out []string
		for _, p := range sliceWith(t, service(ports...), "a", 1).Ports {
			out = append(out, *p.Name)
		}
		return strings.Join(out, " ")
	}
	want := names()
	slices.Reverse(ports)
	if got := names(); got != want {
		t.Errorf("%s, and the other way round %s", want, got)
	}
}

// TestMissingNodes: pods on nodes that nobody knows are left out, unless whatever there is is published.
func TestMissingNodes(t *testing.T) {
	for publish, want := range map[bool]string{false: "1", true: "1,2"} {
		s := service(http())
		s.Spec.PublishNotReadyAddresses = publish
		all := podsAt(1, 2)
		all[1].Spec.NodeName = "missing"
		if got := planned(s, all, nil, 4); got != "+"+want {
			t.Errorf("publishing %t: %s", publish, got)
		}
		if _, _, _, missing := endpointslice.Plan(s, all, nil, 4); (len(missing) == 0) != publish {
			t.Errorf("publishing %t: %v", publish, missing)
		}
	}
}

// TestHintsByDistribution: which hints an endpoint gets by the service's traffic distribution, and when that is written.
func TestHintsByDistribution(t *testing.T) {
	yes, no, node, zone := true, false, "n", "z"
	was := &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: "old"}}}
	for _, tt := range []struct {
		distribution string
		ready        *bool
		node, zone   *string
		want         string
	}{
		{"", &yes, &node, &zone, "none"},
		{"", &no, &node, &zone, "none"},
		{"Other", &yes, &node, &zone, "none"},
		{"PreferClose", &yes, &node, &zone, "[{z}] []"},
		{"PreferSameZone", &yes, &node, &zone, "[{z}] []"},
		{"PreferSameNode", &yes, &node, &zone, "[{z}] [{n}]"},
		{"PreferSameNode", &yes, nil, &zone, "[{z}] []"},
		{"PreferSameNode", &yes, &node, nil, "[] [{n}]"},
		{"PreferSameNode", &yes, nil, nil, "none"},
		{"PreferClose", &yes, &node, nil, "none"},
		{"PreferClose", &no, &node, &zone, "as it was"},
		{"PreferClose", nil, &node, &zone, "as it was"},
	} {
		name := fmt.Sprintf("%s, ready %v, node %v, zone %v", tt.distribution, tt.ready, tt.node, tt.zone)
		s := service(http())
		if tt.distribution != "" {
			s.Spec.TrafficDistribution = &tt.distribution
		}
		e := discoveryv1.Endpoint{Conditions: discoveryv1.EndpointConditions{Ready: tt.ready}, NodeName: tt.node, Zone: tt.zone, Hints: was}
		got := "as it was"
		if hints, matter := endpointslice.HintsFor(s, &e); matter {
			got = "none"
			if hints != nil {
				got = fmt.Sprint(hints.ForZones, hints.ForNodes)
			}
		}
		if got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
	s := service(http())
	s.Namespace, s.UID = "ns", "u"
	plain := func(name string, last ...int) *discoveryv1.EndpointSlice { return sliceWith(t, s, name, last...) }
	before := plain("a", 1)
	near := corev1.ServiceTrafficDistributionPreferClose
	s.Spec.TrafficDistribution = &near
	hinted := plain("b", 2)
	unready := podsAt(1)
	unready[0].Status.Conditions = nil
	left := before.DeepCopy() // not ready, with hints from when it was
	left.Endpoints[0].Conditions.Ready, left.Endpoints[0].Conditions.Serving, left.Endpoints[0].Hints = &no, &no, was
	for name, tt := range map[string]struct {
		pods     []*corev1.Pod
		existing []*discoveryv1.EndpointSlice
		want     string
	}{
		"right ones":                     {podsAt(2), []*discoveryv1.EndpointSlice{hinted}, ""},
		"none yet":                       {podsAt(1), []*discoveryv1.EndpointSlice{before}, "a=1"},
		"none yet, and one more, in one": {podsAt(1, 3), []*discoveryv1.EndpointSlice{before}, "a=1,3"},
		"one is wrong, another changes":  {podsAt(1, 2, 3), []*discoveryv1.EndpointSlice{before, plain("b", 2, 7)}, "a=1 b=2,3"},
		"of one that is not ready":       {unready, []*discoveryv1.EndpointSlice{left}, ""},
		"one that is deleted":            {podsAt(2), []*discoveryv1.EndpointSlice{before, hinted}, "-a"},
	} {
		if got := planned(s, tt.pods, tt.existing, 4); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

// TestOwnWrites: what the controller wrote itself does not make it look again; what others do to that does.
func TestOwnWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{}
		in := b.start(t)
		var q trial.Queue
		c := endpointslice.New(in, b.api, &b.events, endpointslice.Options{})
		c.Watch(&q)
		controllerstest.Go(t, in.Services, in.Pods, in.Nodes, in.EndpointSlices)
		want := func(what, want string) {
			t.Helper()
			synctest.Wait()
			if got := q.Take(); got != want {
				t.Errorf("%s: %q, want %q", what, got, want)
			}
		}
		late := false
		reconcile := func(what string, again time.Duration) {
			t.Helper()
			b.feed.Hold() // a write that the cache shows before it is answered is taken for somebody's
			if !late {
				defer b.feed.Resume()
			}
			result, err := c.Reconcile(t.Context(), controllers.Key{Namespace: "ns", Name: "web"})
			if err != nil || result.RequeueAfter != again {
				t.Errorf("%s: %v, %v", what, result, err)
			}
		}
		b.put(dual(corev1.IPv4Protocol, corev1.IPv6Protocol))
		want("a service", "ns/web")
		reconcile("a service", 0)
		want("its slices", "")
		change(b, at(services, "web"), func(s *corev1.Service) { s.Labels = map[string]string{"l": "w"} })
		want("a change of the service", "ns/web")
		reconcile("a change of the service", 0)
		want("a change of the slices", "")
		change(b, at(services, "web"), single)
		want("one family less", "ns/web")
		reconcile("one family less", 0)
		want("a slice that we deleted", "")

		name := b.slices()[0].Name
		b.remove(at(resource, name))
		want("a slice that somebody deleted", "ns/web+1s")
		reconcile("a slice that somebody deleted", 0)
		want("another one", "")
		name = b.slices()[0].Name
		change(b, at(resource, name), func(e *discoveryv1.EndpointSlice) {
			e.Labels["endpointslice.kubernetes.io/managed-by"] = "somebody"
		})
		want("a slice that somebody took", "ns/web+1s")
		b.remove(at(resource, name))
		want("and deleted", "")
		reconcile("without it", 0)
		want("a third one", "")

		late = true
		change(b, at(services, "web"), func(s *corev1.Service) { s.Labels = map[string]string{"l": "x"} })
		reconcile("a slice that the cache is to show", 0)
		want("a change of the service", "ns/web")
		reconcile("the cache is behind", time.Second)
		b.feed.Resume()
		want("it has caught up", "ns/web")
	})
}

// TestOthersSlices: slices that others manage for a service, or took over, and those that are being deleted, are none of ours:
// others are made in their place.
func TestOthersSlices(t *testing.T) {
	label := func(name, value string) func(*discoveryv1.EndpointSlice) {
		return func(s *discoveryv1.EndpointSlice) { s.Labels[name] = value }
	}
	const one, more = "IPv4 1.2.3.4(rs):http=8080", "IPv4 1.2.3.4(rs),1.2.3.5(rs):http=8080"
	for name, tt := range map[string]struct {
		change func(*discoveryv1.EndpointSlice)
		delete bool
	}{
		"taken":   {label("endpointslice.kubernetes.io/managed-by", "somebody"), false},
		"moved":   {label("kubernetes.io/service-name", "db"), false},
		"deleted": {func(s *discoveryv1.EndpointSlice) { s.Finalizers = []string{"x/y"} }, true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bench) {
				b.put(service(http()))
				b.put(pod("a", "1.2.3.4"))
				mine := b.slices()[0].Name
				change(b, at(resource, mine), tt.change)
				if tt.delete {
					b.remove(at(resource, mine))
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				b.want(one, one)
				b.put(pod("b", "1.2.3.5"))
				b.want(more, one)
			})
		})
	}
}
