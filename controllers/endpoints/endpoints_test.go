package endpoints_test

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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/endpoints"
	"github.com/keelson-dev/keelson/controllers/internal/trial"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/lag"
)

var (
	services = corev1.SchemeGroupVersion.WithResource("services")
	resource = corev1.SchemeGroupVersion.WithResource("endpoints")
)

type bench struct {
	*testing.T
	api    *controllerstest.API
	events controllerstest.Recorder
	feed   *lag.Source[*corev1.Endpoints]
	// Stored when they were valid: under older rules, or in a cluster of IPv6.
	services []*corev1.Service
	pods     []*corev1.Pod
	// Of the controller: what it asks, if not the API itself, and where failures are logged.
	client *trial.Client
	log    *slog.Logger
}

func (b *bench) start(t *testing.T, o controllerstest.Options) endpoints.Sources {
	b.T, b.api = t, controllerstest.Start(t, o)
	b.feed = controllerstest.Source[*corev1.Endpoints](b.api, resource)
	detect := informer.Options{DetectMutations: func(err error) { t.Error(err) }}
	return endpoints.Sources{
		Services:  informer.New(trial.Stored[*corev1.Service]{Source: controllerstest.Source[*corev1.Service](b.api, services), Objects: b.services}, detect),
		Pods:      informer.New(trial.Stored[*corev1.Pod]{Source: controllerstest.Source[*corev1.Pod](b.api, controllerstest.Pods()), Objects: b.pods}, detect),
		Endpoints: informer.New(b.feed, detect),
	}
}

// run runs test against a controller; before makes what is there a second before it starts.
func (b *bench) run(t *testing.T, before, test func(*bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		in := b.start(t, controllerstest.Options{})
		var asked endpoints.Client = b.api
		if b.client != nil {
			b.client.Client = b.api
			asked = b.client
		}
		if before != nil {
			before(b)
		}
		loop := controllers.NewLoop(endpoints.New(in, asked, &b.events, endpoints.Options{}), controllers.Options{Logger: b.log})
		controllerstest.Go(t, in.Services, in.Pods, in.Endpoints, loop)
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

// status is where a pod's status is changed.
func status(pod string) client.Target {
	t := at(controllerstest.Pods(), pod)
	t.Subresource = "status"
	return t
}

func (b *bench) remove(at client.Target) {
	b.Helper()
	if err := b.api.Others.Delete(b.Context(), at, metav1.DeleteOptions{}); err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
}

func (b *bench) endpoints(name string) *corev1.Endpoints {
	b.Helper()
	out, err := client.As[*corev1.Endpoints](b.api.Others.Get(b.Context(), at(resource, name)))
	if err != nil && !apierrors.IsNotFound(err) {
		b.Fatal(err)
	}
	return out
}

// text is "ready|not ready:ports" of each subset.
func text(e *corev1.Endpoints) string {
	if e == nil {
		return "none"
	}
	ips := func(all []corev1.EndpointAddress) string {
		var out []string
		for _, a := range all {
			out = append(out, a.IP)
		}
		return strings.Join(out, ",")
	}
	var out []string
	for _, s := range e.Subsets {
		var ports []string
		for _, p := range s.Ports {
			ports = append(ports, fmt.Sprintf("%s=%d", p.Name, p.Port))
		}
		slices.Sort(ports)
		out = append(out, ips(s.Addresses)+"|"+ips(s.NotReadyAddresses)+":"+strings.Join(ports, ","))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func (b *bench) want(name, want string) {
	b.Helper()
	if got := text(b.endpoints(name)); got != want {
		b.Errorf("endpoints of %s: %q, want %q", name, got, want)
	}
}

func service(name string, ports ...corev1.ServicePort) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{"l": "v"}},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": name}, ClusterIP: "10.0.0.1",
			IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, Ports: ports,
		},
	}
}

func port(name string, target intstr.IntOrString) corev1.ServicePort {
	return corev1.ServicePort{Name: name, Port: 80, TargetPort: target, Protocol: corev1.ProtocolTCP}
}

// pod is a running pod of app web; it is ready unless its name starts with "un".
func pod(name string, ips ...string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{{
			Name: "web", Image: "web", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: corev1.ProtocolTCP}},
		}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	for _, ip := range ips {
		p.Status.PodIP = ips[0]
		p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: ip})
	}
	if !strings.HasPrefix(name, "un") {
		ready(p, time.Now())
	}
	return p
}

func ready(p *corev1.Pod, at time.Time) {
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(at)}}
}

func TestFollowsPods(t *testing.T) {
	inBubble(t, func(b *bench) {
		raw := port("raw", intstr.FromInt32(9))
		raw.Port = 90
		b.put(service("web", port("http", intstr.FromString("http")), raw))
		b.want("web", "")
		got := b.endpoints("web")
		created := time.Now().UTC().Format(time.RFC3339Nano)
		if !maps.Equal(got.Labels, map[string]string{"l": "v", "endpoints.kubernetes.io/managed-by": "endpoint-controller"}) ||
			got.Annotations[corev1.EndpointsLastChangeTriggerTime] != created {
			b.Errorf("endpoints %+v, want trigger time %s", got.ObjectMeta, created)
		}
		time.Sleep(time.Minute)
		b.put(pod("a", "1.2.3.4"))
		b.put(pod("unready", "1.2.3.5"))
		b.put(pod("no-address"))
		b.want("web", "1.2.3.4|1.2.3.5:http=8080,raw=9")
		a := b.endpoints("web").Subsets[0].Addresses[0]
		if *a.NodeName != "node" || a.TargetRef.Kind != "Pod" || a.TargetRef.Name != "a" || a.TargetRef.UID == "" || a.TargetRef.ResourceVersion != "" {
			b.Errorf("address %+v", a)
		}
		time.Sleep(time.Minute)
		when := time.Now()
		change(b, status("unready"), func(p *corev1.Pod) { ready(p, when) })
		b.want("web", "1.2.3.4,1.2.3.5|:http=8080,raw=9")
		if got := b.endpoints("web").Annotations[corev1.EndpointsLastChangeTriggerTime]; got != when.UTC().Format(time.RFC3339Nano) {
			b.Errorf("trigger time %s, want %s", got, when)
		}
		change(b, status("unready"), func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
		b.want("web", "1.2.3.4|:http=8080,raw=9")
		change(b, at(controllerstest.Pods(), "a"), func(p *corev1.Pod) { p.Labels = nil })
		b.want("web", "")
		change(b, at(controllerstest.Pods(), "a"), func(p *corev1.Pod) { p.Labels = map[string]string{"app": "web"} })
		b.remove(at(controllerstest.Pods(), "a"))
		b.want("web", "") // terminating
		b.remove(at(services, "web"))
		b.want("web", "none")
		for _, e := range b.events.Take() {
			b.Error(e)
		}
	})
}

// TestTerminating: where addresses are published that are not ready, those of pods that are being deleted stay until the
// pods have ended.
func TestTerminating(t *testing.T) {
	inBubble(t, func(b *bench) {
		s := service("web", port("http", intstr.FromInt32(8080)))
		s.Spec.PublishNotReadyAddresses = true
		b.put(s, pod("a", "1.2.3.4"))
		b.want("web", "1.2.3.4|:http=8080")
		b.remove(at(controllerstest.Pods(), "a"))
		b.want("web", "1.2.3.4|:http=8080")
		change(b, status("a"), func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
		b.want("web", "")
	})
}

func TestKindsOfServices(t *testing.T) {
	for _, tt := range []struct {
		name    string
		old     bool // stored when it was valid: under older rules, or in a cluster of IPv6
		service func(*corev1.ServiceSpec)
		want    string
	}{
		{"ordinary", false, func(*corev1.ServiceSpec) {}, "1.2.3.4|1.2.3.5:http=8080"},
		{"publishes not ready", false, func(s *corev1.ServiceSpec) { s.PublishNotReadyAddresses = true }, "1.2.3.4,1.2.3.5|:http=8080"},
		{"IPv6", true, func(s *corev1.ServiceSpec) { s.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol} }, "fd00::4|:http=8080"},
		{"IPv6 by its address", true, func(s *corev1.ServiceSpec) { s.IPFamilies, s.ClusterIP = nil, "fd00::1" }, "fd00::4|:http=8080"},
		{"family of the pod", true, func(s *corev1.ServiceSpec) { s.IPFamilies, s.ClusterIP = nil, "" }, "1.2.3.4|1.2.3.5:http=8080"},
		{"headless without ports", false, func(s *corev1.ServiceSpec) { s.ClusterIP, s.Ports = "None", nil }, "1.2.3.4|1.2.3.5:"},
		{"without ports", true, func(s *corev1.ServiceSpec) { s.Ports = nil }, ""},
		{"port that no pod has", false, func(s *corev1.ServiceSpec) { s.Ports[0].TargetPort = intstr.FromString("x") }, ""},
		{"without selector", false, func(s *corev1.ServiceSpec) { s.Selector = nil }, "none"},
		{"selecting nothing", false, func(s *corev1.ServiceSpec) { s.Selector = map[string]string{"app": "x"} }, ""},
		{"external", false, func(s *corev1.ServiceSpec) {
			s.Type, s.ExternalName, s.ClusterIP, s.IPFamilies = corev1.ServiceTypeExternalName, "example.com", "", nil
		}, "none"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, b := service("web", port("http", intstr.FromString("http"))), &bench{}
			tt.service(&s.Spec)
			if tt.old {
				b.services = []*corev1.Service{s}
			}
			b.run(t, func(b *bench) { b.put(pod("a", "1.2.3.4", "fd00::4"), pod("unready", "1.2.3.5")) }, func(b *bench) {
				if !tt.old {
					b.put(s)
				}
				b.want("web", tt.want)
				if e := b.endpoints("web"); e != nil {
					_, headless := e.Labels[corev1.IsHeadlessService]
					if want := s.Spec.ClusterIP == "None" || s.Spec.ClusterIP == ""; headless != want {
						b.Errorf("headless label %t, want %t", headless, want)
					}
				}
			})
		})
	}
}

func TestHostname(t *testing.T) {
	inBubble(t, func(b *bench) {
		p := pod("a", "1.2.3.4")
		p.Spec.Hostname, p.Spec.Subdomain = "host", "web"
		b.put(p)
		b.put(service("web", port("http", intstr.FromString("http"))))
		if got := b.endpoints("web").Subsets[0].Addresses[0].Hostname; got != "host" {
			b.Errorf("hostname %q", got)
		}
	})
}

func TestOverCapacity(t *testing.T) {
	inBubble(t, func(b *bench) {
		for i := range 990 {
			b.put(pod(fmt.Sprint("a", i), fmt.Sprintf("1.2.%d.%d", i/250, i%250)))
		}
		for i := range 20 {
			b.put(pod(fmt.Sprint("un", i), fmt.Sprintf("2.2.%d.%d", i/250, i%250)))
		}
		b.put(service("web", port("http", intstr.FromString("http"))))
		e := b.endpoints("web")
		if len(e.Subsets[0].Addresses) != 990 || len(e.Subsets[0].NotReadyAddresses) != 10 || e.Annotations[corev1.EndpointsOverCapacity] != "truncated" {
			b.Errorf("%d and %d, %v", len(e.Subsets[0].Addresses), len(e.Subsets[0].NotReadyAddresses), e.Annotations)
		}
		change(b, at(services, "web"), func(s *corev1.Service) { s.Spec.Selector["more"] = "x" })
		if e := b.endpoints("web"); len(e.Subsets) != 0 || e.Annotations[corev1.EndpointsOverCapacity] != "" {
			b.Errorf("%+v", e)
		}
	})
}

// TestLeftovers: Endpoints without a service go, also those that a process wrote that was started in the same second.
func TestLeftovers(t *testing.T) {
	new(bench).run(t, func(b *bench) {
		b.put(&corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "left"}})
		b.put(&corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "lock", Annotations: map[string]string{"control-plane.alpha.kubernetes.io/leader": "{}"}}})
	}, func(b *bench) {
		b.want("left", "none") // nobody's
		b.want("lock", "")
		b.put(&corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "manual"}})
		b.want("manual", "")
	})
}

func TestWritesOnlyWhatChanged(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.put(service("web", port("http", intstr.FromString("http"))))
		b.put(pod("a", "1.2.3.4"))
		b.api.Reset()
		change(b, at(controllerstest.Pods(), "a"), func(p *corev1.Pod) { p.Annotations = map[string]string{"x": "y"} })
		change(b, at(services, "web"), func(s *corev1.Service) { s.Annotations = map[string]string{"x": "y"} })
		time.Sleep(time.Hour)
		if wrote := b.api.Writes(); len(wrote) > 0 {
			b.Errorf("wrote %v", wrote)
		}
		change(b, at(services, "web"), func(s *corev1.Service) { s.Labels = nil })
		if got := b.endpoints("web").Labels; len(got) != 1 {
			b.Errorf("labels %v", got)
		}
	})
}

func TestFailuresAreReported(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.api.Inject(faults.Fault{Verb: faults.Create, Resource: "endpoints", Err: errors.New("no"), Times: -1})
		b.put(web())
		if got, want := b.events.Take(), "Warning FailedToCreateEndpoint Failed to create endpoint for service ns/web: no"; len(got) == 0 || got[0] != want {
			b.Errorf("events %q, want %q", got, want)
		}
		b.api.Heal()
		time.Sleep(time.Minute)
		b.events.Take()
		b.api.Inject(faults.Fault{Verb: faults.Update, Resource: "endpoints", Err: errors.New("no"), Times: -1})
		change(b, at(services, "web"), func(s *corev1.Service) { s.Labels = nil })
		if got, want := b.events.Take(), "Warning FailedToUpdateEndpoint Failed to update endpoint ns/web: no"; len(got) == 0 || got[0] != want {
			b.Errorf("events %q, want %q", got, want)
		}
	})
}

func TestPack(t *testing.T) {
	address := func(ip string) corev1.EndpointAddress { return corev1.EndpointAddress{IP: ip} }
	one := func(ip string, port int32, ready bool) corev1.EndpointSubset {
		s := corev1.EndpointSubset{Ports: []corev1.EndpointPort{{Name: fmt.Sprint("p", port), Port: port}}}
		if ready {
			s.Addresses = []corev1.EndpointAddress{address(ip)}
		} else {
			s.NotReadyAddresses = []corev1.EndpointAddress{address(ip)}
		}
		return s
	}
	for _, tt := range []struct {
		name string
		in   []corev1.EndpointSubset
		want string
	}{
		{"one", []corev1.EndpointSubset{one("1", 80, true)}, "1|:p80=80"},
		{"same ports", []corev1.EndpointSubset{one("2", 80, true), one("1", 80, true)}, "1,2|:p80=80"},
		{"same addresses", []corev1.EndpointSubset{one("1", 80, true), one("1", 81, true)}, "1|:p80=80,p81=81"},
		{"twice", []corev1.EndpointSubset{one("1", 80, true), one("1", 80, true)}, "1|:p80=80"},
		{"ready and not", []corev1.EndpointSubset{one("1", 80, true), one("2", 80, false)}, "1|2:p80=80"},
		{"not ready trumps", []corev1.EndpointSubset{one("1", 80, false), one("1", 80, true)}, "|1:p80=80"},
		{"differ by port", []corev1.EndpointSubset{one("1", 80, true), one("1", 81, true), one("2", 81, true)}, "1,2|:p81=81 1|:p80=80"},
		{"differ by readiness", []corev1.EndpointSubset{one("1", 80, true), one("1", 81, false)}, "1|:p80=80 |1:p81=81"},
		{"none", nil, ""},
	} {
		packed := endpoints.Pack(tt.in)
		if got := text(&corev1.Endpoints{Subsets: packed}); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
		again := endpoints.Pack(packed)
		if text(&corev1.Endpoints{Subsets: again}) != text(&corev1.Endpoints{Subsets: packed}) {
			t.Errorf("%s: packing twice differs", tt.name)
		}
	}
}
