package endpointslice_test

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/endpointslice"
	"github.com/keelson-dev/keelson/controllers/internal/trial"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/lag"
	"github.com/keelson-dev/keelson/registry/core"
)

var (
	services = corev1.SchemeGroupVersion.WithResource("services")
	nodes    = corev1.SchemeGroupVersion.WithResource("nodes")
	resource = discoveryv1.SchemeGroupVersion.WithResource("endpointslices")
)

type bench struct {
	*testing.T
	api    *controllerstest.API
	events controllerstest.Recorder
	feed   *lag.Source[*discoveryv1.EndpointSlice]
	// Stored under older rules.
	services []*corev1.Service
	pods     []*corev1.Pod
	// Of the controller: what it asks, if not the API itself, and where failures are logged.
	client *trial.Client
	log    *slog.Logger
}

// start makes a cluster with services of both families and a node.
func (b *bench) start(t *testing.T) endpointslice.Sources {
	b.T, b.api = t, controllerstest.Start(t, controllerstest.Options{
		Services: core.Services{Networks: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24"), netip.MustParsePrefix("fd00::/112")}},
		Objects: []informer.Object{
			&networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.0.0.0/24", "fd00::/112"}}},
			&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node", Labels: map[string]string{corev1.LabelTopologyZone: "z"}}},
		},
	})
	b.feed = controllerstest.Source[*discoveryv1.EndpointSlice](b.api, resource)
	detect := informer.Options{DetectMutations: func(err error) { t.Error(err) }}
	return endpointslice.Sources{
		Services:       informer.New(trial.Stored[*corev1.Service]{Source: controllerstest.Source[*corev1.Service](b.api, services), Objects: b.services}, detect),
		Pods:           informer.New(trial.Stored[*corev1.Pod]{Source: controllerstest.Source[*corev1.Pod](b.api, controllerstest.Pods()), Objects: b.pods}, detect),
		Nodes:          informer.New(controllerstest.Source[*corev1.Node](b.api, nodes), detect),
		EndpointSlices: informer.New(b.feed, detect),
	}
}

// run runs test against a controller; before, if not nil, makes what is there when it starts.
func (b *bench) run(t *testing.T, before, test func(*bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		in := b.start(t)
		var asked endpointslice.Client = b.api
		if b.client != nil {
			b.client.Client = b.api
			asked = b.client
		}
		if before != nil {
			before(b)
		}
		loop := controllers.NewLoop(endpointslice.New(in, asked, &b.events, endpointslice.Options{}), controllers.Options{Logger: b.log})
		controllerstest.Go(t, in.Services, in.Pods, in.Nodes, in.EndpointSlices, loop)
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

// status is where a pod's status is changed.
func status(pod string) client.Target {
	t := at(controllerstest.Pods(), pod)
	t.Subresource = "status"
	return t
}

// change changes what is at a target, as another user.
func change[T runtime.Object](b *bench, at client.Target, change func(T)) {
	b.Helper()
	main := at
	main.Subresource = ""
	obj, err := client.As[T](b.api.Others.Get(b.Context(), main))
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

// text is "type address(conditions),…:ports"; conditions are ready, serving, terminating.
func text(slice *discoveryv1.EndpointSlice) string {
	var ips, ports []string
	for _, e := range slice.Endpoints {
		c := e.Conditions
		flags := ""
		for flag, on := range map[string]*bool{"r": c.Ready, "s": c.Serving, "t": c.Terminating} {
			if on != nil && *on {
				flags += flag
			}
		}
		letters := strings.Split(flags, "")
		slices.Sort(letters)
		ips = append(ips, strings.Join(e.Addresses, "+")+"("+strings.Join(letters, "")+")")
	}
	for _, p := range slice.Ports {
		ports = append(ports, fmt.Sprintf("%s=%d", *p.Name, *p.Port))
	}
	slices.Sort(ports)
	return string(slice.AddressType) + " " + strings.Join(ips, ",") + ":" + strings.Join(ports, ",")
}

func (b *bench) want(want ...string) {
	b.Helper()
	var got []string
	for _, slice := range b.slices() {
		got = append(got, text(&slice))
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		b.Errorf("slices %q, want %q", got, want)
	}
}

func service(ports ...corev1.ServicePort) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", Labels: map[string]string{"l": "v"}},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "web"}, ClusterIP: "10.0.0.1",
			IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, Ports: ports,
		},
	}
}

// dual is a service of both families.
func dual(first, second corev1.IPFamily) *corev1.Service {
	s, both := service(http()), corev1.IPFamilyPolicyRequireDualStack
	s.Spec.ClusterIP, s.Spec.IPFamilies, s.Spec.IPFamilyPolicy = "", []corev1.IPFamily{first, second}, &both
	return s
}

// single gives the second family of a service up.
func single(s *corev1.Service) {
	one := corev1.IPFamilyPolicySingleStack
	s.Spec.IPFamilyPolicy = &one
}

func port(name string, target intstr.IntOrString) corev1.ServicePort {
	return corev1.ServicePort{Name: name, Port: 80, TargetPort: target, Protocol: corev1.ProtocolTCP}
}

func http() corev1.ServicePort { return port("http", intstr.FromInt32(8080)) }

// pod is a running pod of app web; it is ready unless its name starts with "un".
func pod(name string, ips ...string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{NodeName: "node"},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
	for _, ip := range ips {
		p.Status.PodIP = ips[0]
		p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: ip})
	}
	if !strings.HasPrefix(name, "un") {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(time.Now())}}
	}
	return p
}

func TestFollowsPods(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.put(service(http()))
		b.want("IPv4 :")
		b.put(pod("a", "1.2.3.4", "fd00::4"))
		b.put(pod("unready", "1.2.3.5"))
		b.want("IPv4 1.2.3.4(rs),1.2.3.5():http=8080")
		slice := b.slices()[0]
		if slice.GenerateName != "web-" || !strings.HasPrefix(slice.Name, "web-") || !maps.Equal(slice.Labels, map[string]string{
			"l": "v", "kubernetes.io/service-name": "web", "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
		}) {
			b.Errorf("slice %+v", slice.ObjectMeta)
		}
		if ref := metav1.GetControllerOf(&slice); ref == nil || ref.Kind != "Service" || ref.APIVersion != "v1" || ref.Name != "web" || !*ref.BlockOwnerDeletion {
			b.Errorf("owner %+v", ref)
		}
		e := slice.Endpoints[0]
		if *e.NodeName != "node" || *e.Zone != "z" || e.TargetRef.Kind != "Pod" || e.TargetRef.Name != "a" || e.TargetRef.UID == "" || e.Hostname != nil || e.Hints != nil {
			b.Errorf("endpoint %+v", e)
		}
		if p := slice.Ports[0]; *p.Name != "http" || *p.Port != 8080 || *p.Protocol != corev1.ProtocolTCP {
			b.Errorf("port %+v", p)
		}
		b.remove(at(controllerstest.Pods(), "a"))
		b.want("IPv4 1.2.3.4(st),1.2.3.5():http=8080") // still serving
		now := int64(0)
		if err := b.api.Others.Delete(b.Context(), at(controllerstest.Pods(), "a"), metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
			b.Fatal(err)
		}
		synctest.Wait()
		b.want("IPv4 1.2.3.5():http=8080")
		change(b, status("unready"), func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
		b.want("IPv4 :")
		for _, e := range b.events.Take() {
			b.Error(e)
		}
	})
}

func TestKindsOfServices(t *testing.T) {
	with := func(change func(*corev1.ServiceSpec)) *corev1.Service {
		s := service(http())
		change(&s.Spec)
		return s
	}
	both := []string{"IPv4 1.2.3.4(rs),1.2.3.5():http=8080"}
	for name, tt := range map[string]struct {
		service *corev1.Service
		old     bool // stored under older rules
		want    []string
	}{
		"ordinary":            {service(http()), false, both},
		"publishes not ready": {with(func(s *corev1.ServiceSpec) { s.PublishNotReadyAddresses = true }), false, []string{"IPv4 1.2.3.4(rs),1.2.3.5(r):http=8080"}},
		"dual stack": {dual(corev1.IPv6Protocol, corev1.IPv4Protocol), false,
			[]string{"IPv4 1.2.3.4(rs),1.2.3.5():http=8080", "IPv6 fd00::4(rs):http=8080"}},
		"no family, cluster IP":  {with(func(s *corev1.ServiceSpec) { s.IPFamilies, s.ClusterIP = nil, "fd00::1" }), true, []string{"IPv6 fd00::4(rs):http=8080"}},
		"no family at all":       {with(func(s *corev1.ServiceSpec) { s.IPFamilies, s.ClusterIP = nil, "" }), true, both},
		"headless without ports": {with(func(s *corev1.ServiceSpec) { s.ClusterIP, s.Ports = "None", nil }), false, []string{"IPv4 1.2.3.4(rs),1.2.3.5():"}},
		"without selector":       {with(func(s *corev1.ServiceSpec) { s.Selector = nil }), false, nil},
		"external": {with(func(s *corev1.ServiceSpec) {
			s.Type, s.ExternalName, s.ClusterIP, s.IPFamilies = corev1.ServiceTypeExternalName, "example.com", "", nil
		}), false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			b := &bench{}
			if tt.old {
				tt.service.UID = "old"
				b.services = []*corev1.Service{tt.service}
			}
			b.run(t, func(b *bench) { b.put(pod("a", "1.2.3.4", "fd00::4"), pod("unready", "1.2.3.5")) }, func(b *bench) {
				s := tt.service
				if !tt.old {
					s = controllerstest.Add(b, b.api, s)
					synctest.Wait()
				}
				b.want(tt.want...)
				for _, slice := range b.slices() {
					_, headless := slice.Labels[corev1.IsHeadlessService]
					if want := s.Spec.ClusterIP == "None" || s.Spec.ClusterIP == ""; headless != want {
						b.Errorf("headless label %t, want %t", headless, want)
					}
				}
			})
		})
	}
}

func TestManyEndpoints(t *testing.T) {
	inBubble(t, func(b *bench) {
		for i := range 250 {
			b.put(pod(fmt.Sprintf("p%03d", i), fmt.Sprintf("1.2.%d.%d", i/100, i%100)))
		}
		b.put(service(http()))
		sizes := func() (out []int) {
			for _, slice := range b.slices() {
				out = append(out, len(slice.Endpoints))
			}
			return out
		}
		if got := sizes(); !slices.Equal(got, []int{100, 100, 50}) {
			b.Fatalf("sizes %v", got)
		}
		b.api.Reset()
		b.put(pod("p250", "1.3.0.0"))
		change(b, status("p000"), func(p *corev1.Pod) { p.Status.Conditions = nil })
		var writes []string
		for _, w := range b.api.Writes() {
			writes = append(writes, w.String())
		}
		if got := sizes(); !slices.Equal(got, []int{100, 100, 51}) || !slices.Equal(writes, []string{"update endpointslices ns/web-00003", "update endpointslices ns/web-00001"}) {
			b.Errorf("sizes %v, writes %v", got, writes)
		}
	})
}

func TestRepairsWhatOthersChange(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.put(pod("a", "1.2.3.4"))
		b.put(service(http()))
		name := b.slices()[0].Name
		change(b, at(resource, name), func(e *discoveryv1.EndpointSlice) { e.Endpoints = nil })
		time.Sleep(2 * time.Second)
		b.want("IPv4 1.2.3.4(rs):http=8080")
		b.remove(at(resource, name))
		time.Sleep(2 * time.Second)
		b.want("IPv4 1.2.3.4(rs):http=8080")
		b.put(&discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Namespace: "ns", Name: "foreign", Labels: map[string]string{"kubernetes.io/service-name": "web"}},
			AddressType: discoveryv1.AddressTypeIPv4,
		})
		time.Sleep(2 * time.Second)
		b.want("IPv4 1.2.3.4(rs):http=8080", "IPv4 :") // left alone
		b.api.Reset()
		time.Sleep(24 * time.Hour)
		if wrote := b.api.Writes(); len(wrote) != 0 {
			b.Errorf("wrote %v", wrote)
		}
	})
}

func TestMissingNodeAndFailures(t *testing.T) {
	inBubble(t, func(b *bench) {
		lost := pod("lost", "1.2.3.4")
		lost.Spec.NodeName = "later"
		b.put(lost)
		b.put(service(http()))
		b.want("IPv4 :")
		want := "Warning FailedToUpdateEndpointSlices Error updating Endpoint Slices for Service ns/web: skipping Pod lost for Service ns/web: Node later Not Found"
		if got := b.events.Take(); len(got) != 1 || got[0] != want {
			b.Errorf("events %q, want %q", got, want)
		}
		b.put(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "later"}})
		time.Sleep(1100 * time.Millisecond)
		synctest.Wait()
		b.want("IPv4 1.2.3.4(rs):http=8080")
		b.api.Inject(faults.Fault{Resource: "endpointslices", Err: errors.New("no"), Times: -1})
		b.put(pod("a", "1.2.3.5")) // two changes, which may lead to one attempt or two
		want = "Warning FailedToUpdateEndpointSlices Error updating Endpoint Slices for Service ns/web: failed to update web-00001 EndpointSlice for Service ns/web: no"
		if got := slices.Compact(b.events.Take()); len(got) != 1 || got[0] != want {
			b.Errorf("events %q, want %q", got, want)
		}
		b.api.Heal()
		time.Sleep(time.Minute)
		b.want("IPv4 1.2.3.4(rs),1.2.3.5(rs):http=8080")
	})
}

func TestHints(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.put(pod("a", "1.2.3.4"))
		b.put(service(http()))
		hints := func(distribution *string) string {
			change(b, at(services, "web"), func(s *corev1.Service) { s.Spec.TrafficDistribution = distribution })
			h := b.slices()[0].Endpoints[0].Hints
			if h == nil {
				return "none"
			}
			return fmt.Sprint(h.ForZones, h.ForNodes)
		}
		for distribution, want := range map[string]string{"PreferClose": "[{z}] []", "PreferSameZone": "[{z}] []", "PreferSameNode": "[{z}] [{node}]"} {
			if got := hints(&distribution); got != want {
				b.Errorf("%s: %s, want %s", distribution, got, want)
			}
		}
		if got := hints(nil); got != "none" {
			b.Errorf("no distribution: %s", got)
		}
	})
}

// made is an existing slice of the service with the pods.
func made(name string, s *corev1.Service, pods ...*corev1.Pod) *discoveryv1.EndpointSlice {
	create, _, _, _ := endpointslice.Plan(s, pods, nil, 1000)
	create[0].Name = name
	return create[0]
}

func TestPlan(t *testing.T) {
	var all []*corev1.Pod
	for i := range 12 {
		p := pod(fmt.Sprintf("p%02d", i), fmt.Sprintf("1.1.1.%d", i))
		p.UID = types.UID(p.Name)
		all = append(all, p)
	}
	s := service(http())
	s.UID = "s"
	other := service(http())
	other.UID = "older"
	moved := service(port("http", intstr.FromInt32(9090)))
	moved.UID = "s"
	relabelled := s.DeepCopy()
	relabelled.Labels = nil
	away := all[0].DeepCopy()
	away.Spec.NodeName = "missing"
	for _, tt := range []struct {
		name                   string
		service                *corev1.Service
		pods                   []*corev1.Pod
		existing               []*discoveryv1.EndpointSlice
		create, update, remove string
	}{
		{"new", s, all, nil, "=5 =5 =2", "", ""},
		{"nothing to do", s, all[:3], []*discoveryv1.EndpointSlice{made("a", s, all[:3]...)}, "", "", ""},
		{"empty stays", s, nil, []*discoveryv1.EndpointSlice{made("a", s)}, "", "", ""},
		{"becomes empty", s, nil, []*discoveryv1.EndpointSlice{made("a", s, all[:3]...)}, "", "a=0", ""},
		{"no longer empty", s, all[:3], []*discoveryv1.EndpointSlice{made("a", s)}, "", "a=3", ""},
		{"grows where it changes", s, all[1:6], []*discoveryv1.EndpointSlice{made("a", s, all[:3]...), made("b", s, all[3:5]...)}, "", "a=3", ""},
		{"grows the one that gets fullest", s, all[:6], []*discoveryv1.EndpointSlice{made("a", s, all[:2]...), made("b", s, all[2:5]...)}, "", "b=4", ""},
		{"the rest does not fit in one", s, all[:9], []*discoveryv1.EndpointSlice{made("a", s, all[:4]...), made("b", s, all[4:7]...)}, "", "b=5", ""},
		{"full slices of their own", s, all, []*discoveryv1.EndpointSlice{made("a", s, all[:4]...)}, "=5 =3", "", ""},
		{"is not rebalanced", s, all[:5], []*discoveryv1.EndpointSlice{made("a", s, all[:1]...), made("b", s, all[1:5]...)}, "", "", ""},
		{"shrinks away", s, all[:1], []*discoveryv1.EndpointSlice{made("a", s, all[:1]...), made("b", s, all[1:5]...)}, "", "", "b"},
		{"of an older service", s, all[:1], []*discoveryv1.EndpointSlice{made("a", other, all[:1]...)}, "=1", "", "a"},
		{"other ports", moved, all[:1], []*discoveryv1.EndpointSlice{made("a", s, all[:1]...)}, "", "a=1", ""},
		{"other labels", relabelled, all[:1], []*discoveryv1.EndpointSlice{made("a", s, all[:1]...)}, "", "a=1", ""},
		{"on a node that is gone", s, []*corev1.Pod{away, all[1]}, []*discoveryv1.EndpointSlice{made("a", s, all[:2]...)}, "", "a=1", ""},
	} {
		before := map[string]*discoveryv1.EndpointSlice{}
		for _, slice := range tt.existing {
			before[slice.Name] = slice.DeepCopy()
		}
		create, update, remove, _ := endpointslice.Plan(tt.service, tt.pods, tt.existing, 5)
		names := func(all []*discoveryv1.EndpointSlice, sizes bool) string {
			var out []string
			for _, slice := range all {
				if sizes {
					out = append(out, fmt.Sprintf("%s=%d", slice.Name, len(slice.Endpoints)))
				} else {
					out = append(out, slice.Name)
				}
			}
			return strings.Join(out, " ")
		}
		if c, u, r := names(create, true), names(update, true), names(remove, false); c != tt.create || u != tt.update || r != tt.remove {
			t.Errorf("%s: create %q, update %q, delete %q; want %q, %q, %q", tt.name, c, u, r, tt.create, tt.update, tt.remove)
		}
		for _, slice := range tt.existing {
			if text(slice) != text(before[slice.Name]) || !maps.Equal(slice.Labels, before[slice.Name].Labels) {
				t.Errorf("%s: slice %s was changed", tt.name, slice.Name)
			}
		}
	}
}
