package endpoints_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
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
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/endpoints"
	"github.com/keelson-dev/keelson/controllers/internal/trial"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/internal/fakeapi"
	"github.com/keelson-dev/keelson/lifecycle"
)

var (
	services = corev1.SchemeGroupVersion.WithResource("services")
	resource = corev1.SchemeGroupVersion.WithResource("endpoints")
)

type bench struct {
	*testing.T
	api    *fakeapi.Server
	events fakeapi.Recorder
	feed   *fakeapi.Feed[*corev1.Endpoints]
	// Of the controller: what it asks, if not the server itself, and where failures are logged.
	client *trial.Client
	log    *slog.Logger
}

func inBubble(t *testing.T, o fakeapi.Options, before, test func(*bench)) {
	run(t, &bench{}, o, before, test)
}

func run(t *testing.T, b *bench, o fakeapi.Options, before, test func(*bench)) {
	synctest.Test(t, func(t *testing.T) {
		b.T, b.api = t, fakeapi.New(o)
		var asked endpoints.Client = b.api
		if b.client != nil {
			b.client.Client = b.api
			asked = b.client
		}
		b.feed = fakeapi.Source[*corev1.Endpoints](b.api, resource)
		if before != nil {
			before(b)
			time.Sleep(time.Second)
		}
		detect := informer.Options{DetectMutations: func(err error) { t.Error(err) }}
		in := endpoints.Sources{
			Services:  informer.New(fakeapi.Source[*corev1.Service](b.api, services), detect),
			Pods:      informer.New(fakeapi.Source[*corev1.Pod](b.api, fakeapi.Pods), detect),
			Endpoints: informer.New(b.feed, detect),
		}
		loop := controllers.NewLoop(endpoints.New(in, asked, &b.events, endpoints.Options{}), controllers.Options{Logger: b.log})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- lifecycle.Group(in.Services, in.Pods, in.Endpoints, loop).Run(ctx) }()
		synctest.Wait()
		test(b)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func (b *bench) put(r schema.GroupVersionResource, obj runtime.Object) {
	b.Helper()
	if _, err := b.api.Create(b.Context(), client.Target{Resource: r, Namespace: "ns"}, obj, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
}

func (b *bench) change(r schema.GroupVersionResource, name string, change func(runtime.Object)) {
	b.Helper()
	t := client.Target{Resource: r, Namespace: "ns", Name: name}
	obj, err := b.api.Get(b.Context(), t)
	if err != nil {
		b.Fatal(err)
	}
	change(obj)
	if _, err := b.api.Update(b.Context(), t, obj, metav1.UpdateOptions{}); err != nil {
		b.Fatal(err)
	}
	t.Subresource = "status"
	obj.(metav1.Object).SetResourceVersion("")
	if _, err := b.api.Update(b.Context(), t, obj, metav1.UpdateOptions{}); err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
}

func (b *bench) endpoints(name string) *corev1.Endpoints {
	b.Helper()
	out, err := b.api.Get(b.Context(), client.Target{Resource: resource, Namespace: "ns", Name: name})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		b.Fatal(err)
	}
	return out.(*corev1.Endpoints)
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
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"l": "v"}},
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
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{{
			Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: corev1.ProtocolTCP}},
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
	inBubble(t, fakeapi.Options{}, nil, func(b *bench) {
		b.put(services, service("web", port("http", intstr.FromString("http")), port("raw", intstr.FromInt32(9))))
		b.want("web", "")
		got := b.endpoints("web")
		created := time.Now().UTC().Format(time.RFC3339Nano)
		if !maps.Equal(got.Labels, map[string]string{"l": "v", "endpoints.kubernetes.io/managed-by": "endpoint-controller"}) ||
			got.Annotations[corev1.EndpointsLastChangeTriggerTime] != created {
			b.Errorf("endpoints %+v, want trigger time %s", got.ObjectMeta, created)
		}
		time.Sleep(time.Minute)
		b.put(fakeapi.Pods, pod("a", "1.2.3.4"))
		b.put(fakeapi.Pods, pod("unready", "1.2.3.5"))
		b.put(fakeapi.Pods, pod("no-address"))
		b.want("web", "1.2.3.4|1.2.3.5:http=8080,raw=9")
		a := b.endpoints("web").Subsets[0].Addresses[0]
		if *a.NodeName != "node" || a.TargetRef.Kind != "Pod" || a.TargetRef.Name != "a" || a.TargetRef.UID == "" || a.TargetRef.ResourceVersion != "" {
			b.Errorf("address %+v", a)
		}
		time.Sleep(time.Minute)
		at := time.Now()
		b.change(fakeapi.Pods, "unready", func(o runtime.Object) { ready(o.(*corev1.Pod), at) })
		b.want("web", "1.2.3.4,1.2.3.5|:http=8080,raw=9")
		if got := b.endpoints("web").Annotations[corev1.EndpointsLastChangeTriggerTime]; got != at.UTC().Format(time.RFC3339Nano) {
			b.Errorf("trigger time %s, want %s", got, at)
		}
		b.change(fakeapi.Pods, "unready", func(o runtime.Object) { o.(*corev1.Pod).Status.Phase = corev1.PodFailed })
		b.want("web", "1.2.3.4|:http=8080,raw=9")
		b.change(fakeapi.Pods, "a", func(o runtime.Object) { o.(*corev1.Pod).Labels = nil })
		b.want("web", "")
		b.change(fakeapi.Pods, "a", func(o runtime.Object) { o.(*corev1.Pod).Labels = map[string]string{"app": "web"} })
		if err := b.api.Delete(b.Context(), client.Target{Resource: fakeapi.Pods, Namespace: "ns", Name: "a"}, metav1.DeleteOptions{}); err != nil {
			b.Fatal(err)
		}
		synctest.Wait()
		b.want("web", "") // terminating
		if err := b.api.Delete(b.Context(), client.Target{Resource: services, Namespace: "ns", Name: "web"}, metav1.DeleteOptions{}); err != nil {
			b.Fatal(err)
		}
		synctest.Wait()
		b.want("web", "none")
		for _, e := range b.events.Take() {
			b.Error(e)
		}
	})
}

func TestKindsOfServices(t *testing.T) {
	http := port("http", intstr.FromString("http"))
	for _, tt := range []struct {
		name    string
		service func(*corev1.Service)
		want    string
	}{
		{"ordinary", func(*corev1.Service) {}, "1.2.3.4|1.2.3.5:http=8080"},
		{"publishes not ready", func(s *corev1.Service) { s.Spec.PublishNotReadyAddresses = true }, "1.2.3.4,1.2.3.5|:http=8080"},
		{"IPv6", func(s *corev1.Service) { s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol} }, "fd00::4|:http=8080"},
		{"IPv6 by its address", func(s *corev1.Service) { s.Spec.IPFamilies, s.Spec.ClusterIP = nil, "fd00::1" }, "fd00::4|:http=8080"},
		{"family of the pod", func(s *corev1.Service) { s.Spec.IPFamilies, s.Spec.ClusterIP = nil, "" }, "1.2.3.4|1.2.3.5:http=8080"},
		{"headless without ports", func(s *corev1.Service) { s.Spec.ClusterIP, s.Spec.Ports = "None", nil }, "1.2.3.4|1.2.3.5:"},
		{"without ports", func(s *corev1.Service) { s.Spec.Ports = nil }, ""},
		{"port that no pod has", func(s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromString("x") }, ""},
		{"without selector", func(s *corev1.Service) { s.Spec.Selector = nil }, "none"},
		{"selecting nothing", func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "x"} }, ""},
		{"external", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeExternalName }, "none"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, fakeapi.Options{}, nil, func(b *bench) {
				b.put(fakeapi.Pods, pod("a", "1.2.3.4", "fd00::4"))
				b.put(fakeapi.Pods, pod("unready", "1.2.3.5"))
				s := service("web", http)
				tt.service(s)
				b.put(services, s)
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
	inBubble(t, fakeapi.Options{}, nil, func(b *bench) {
		p := pod("a", "1.2.3.4")
		p.Spec.Hostname, p.Spec.Subdomain = "host", "web"
		b.put(fakeapi.Pods, p)
		b.put(services, service("web", port("http", intstr.FromString("http"))))
		if got := b.endpoints("web").Subsets[0].Addresses[0].Hostname; got != "host" {
			b.Errorf("hostname %q", got)
		}
	})
}

func TestOverCapacity(t *testing.T) {
	inBubble(t, fakeapi.Options{}, nil, func(b *bench) {
		for i := range 990 {
			b.put(fakeapi.Pods, pod(fmt.Sprint("a", i), fmt.Sprintf("1.2.%d.%d", i/250, i%250)))
		}
		for i := range 20 {
			b.put(fakeapi.Pods, pod(fmt.Sprint("un", i), fmt.Sprintf("2.2.%d.%d", i/250, i%250)))
		}
		b.put(services, service("web", port("http", intstr.FromString("http"))))
		e := b.endpoints("web")
		if len(e.Subsets[0].Addresses) != 990 || len(e.Subsets[0].NotReadyAddresses) != 10 || e.Annotations[corev1.EndpointsOverCapacity] != "truncated" {
			b.Errorf("%d and %d, %v", len(e.Subsets[0].Addresses), len(e.Subsets[0].NotReadyAddresses), e.Annotations)
		}
		b.change(services, "web", func(o runtime.Object) { o.(*corev1.Service).Spec.Selector["more"] = "x" })
		if e := b.endpoints("web"); len(e.Subsets) != 0 || e.Annotations[corev1.EndpointsOverCapacity] != "" {
			b.Errorf("%+v", e)
		}
	})
}

func TestLeftovers(t *testing.T) {
	inBubble(t, fakeapi.Options{}, func(b *bench) {
		b.put(resource, &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: "left"}})
		b.put(resource, &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: "lock", Annotations: map[string]string{"control-plane.alpha.kubernetes.io/leader": "{}"}}})
	}, func(b *bench) {
		b.want("left", "none") // nobody's
		b.want("lock", "")
		b.put(resource, &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: "manual"}})
		b.want("manual", "")
	})
}

func TestWritesOnlyWhatChanged(t *testing.T) {
	inBubble(t, fakeapi.Options{}, nil, func(b *bench) {
		b.put(services, service("web", port("http", intstr.FromString("http"))))
		b.put(fakeapi.Pods, pod("a", "1.2.3.4"))
		b.api.Reset()
		b.change(fakeapi.Pods, "a", func(o runtime.Object) { o.(*corev1.Pod).Annotations = map[string]string{"x": "y"} })
		b.change(services, "web", func(o runtime.Object) { o.(*corev1.Service).Annotations = map[string]string{"x": "y"} })
		time.Sleep(time.Hour)
		for _, a := range b.api.Actions() {
			if a.Target.Resource == resource {
				b.Errorf("wrote %v", a)
			}
		}
		b.change(services, "web", func(o runtime.Object) { o.(*corev1.Service).Labels = nil })
		if got := b.endpoints("web").Labels; len(got) != 1 {
			b.Errorf("labels %v", got)
		}
	})
}

func TestFailuresAreReported(t *testing.T) {
	var fail atomic.Bool
	fail.Store(true)
	inBubble(t, fakeapi.Options{Before: func(a fakeapi.Action) error {
		if fail.Load() && a.Target.Resource == resource && (a.Verb == fakeapi.Create || a.Verb == fakeapi.Update) {
			return errors.New("no")
		}
		return nil
	}}, nil, func(b *bench) {
		b.put(services, service("web"))
		if got, want := b.events.Take(), "Warning FailedToCreateEndpoint Failed to create endpoint for service ns/web: no"; len(got) == 0 || got[0] != want {
			b.Errorf("events %q, want %q", got, want)
		}
		fail.Store(false)
		time.Sleep(time.Minute)
		fail.Store(true)
		b.events.Take()
		b.change(services, "web", func(o runtime.Object) { o.(*corev1.Service).Labels = nil })
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
