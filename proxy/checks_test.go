package proxy_test

import (
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/keelson-dev/keelson/proxy"
	"github.com/keelson-dev/keelson/proxy/memory"
)

// balanced is a service that load balancers ask about.
func balanced(change func(*corev1.Service)) *corev1.Service {
	return service(func(s *corev1.Service) {
		s.Spec.Type, s.Spec.ExternalTrafficPolicy = corev1.ServiceTypeLoadBalancer, corev1.ServiceExternalTrafficPolicyLocal
		s.Spec.HealthCheckNodePort = 32000
		if change != nil {
			change(s)
		}
	})
}

func TestChecksOf(t *testing.T) {
	only := func(endpoints int) []proxy.Check { return []proxy.Check{{Port: 32000, Endpoints: endpoints}} }
	port := func(s *discoveryv1.EndpointSlice, name string, number int32) *discoveryv1.EndpointSlice {
		s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: &name, Port: &number, Protocol: new(corev1.ProtocolTCP)})
		return s
	}
	six := slice("a-6", endpoint("10.0.0.1", nil))
	six.AddressType, six.Endpoints[0].Addresses = discoveryv1.AddressTypeIPv6, []string{"fd00::1"}
	nameless := slice("a-0", endpoint("10.0.0.9", nil))
	nameless.Ports[0].Name = nil
	for name, row := range map[string]struct {
		service *corev1.Service
		slices  []*discoveryv1.EndpointSlice
		want    []proxy.Check
	}{
		"no endpoints":           {balanced(nil), nil, only(0)},
		"local ones":             {balanced(nil), []*discoveryv1.EndpointSlice{slice("a-1", endpoint("10.0.0.1", nil), endpoint("10.0.0.2", nil), endpoint("10.0.0.10", nil))}, only(2)},
		"ready ones":             {balanced(nil), []*discoveryv1.EndpointSlice{slice("a-1", endpoint("10.0.0.1", nil), endpoint("10.0.0.2", conditions(false, true, true)))}, only(1)},
		"in two slices":          {balanced(nil), []*discoveryv1.EndpointSlice{slice("a-1", endpoint("10.0.0.1", nil)), slice("a-2", endpoint("10.0.0.1", nil), endpoint("10.0.0.2", nil))}, only(2)},
		"of two ports":           {balanced(nil), []*discoveryv1.EndpointSlice{port(slice("a-1", endpoint("10.0.0.1", nil)), "https", 8443)}, only(1)},
		"of another port only":   {balanced(nil), []*discoveryv1.EndpointSlice{port(nameless, "other", 8443)}, only(1)},
		"of no port":             {balanced(nil), []*discoveryv1.EndpointSlice{port(slice("a-1"), "http", 0), nameless}, only(1)},
		"of the other family":    {balanced(nil), []*discoveryv1.EndpointSlice{six}, only(0)},
		"policy Cluster":         {balanced(func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = "Cluster" }), nil, nil},
		"not for load balancers": {balanced(func(s *corev1.Service) { s.Spec.Type = "NodePort" }), nil, nil},
		"without the port":       {balanced(func(s *corev1.Service) { s.Spec.HealthCheckNodePort = 0 }), nil, nil},
		"without ports":          {balanced(func(s *corev1.Service) { s.Spec.Ports = nil }), nil, nil},
		"without address":        {balanced(func(s *corev1.Service) { s.Spec.ClusterIP, s.Spec.ClusterIPs = "None", nil }), nil, nil},
		"dual stack": {
			balanced(func(s *corev1.Service) { s.Spec.ClusterIPs = []string{"10.96.0.1", "fd96::1"} }),
			[]*discoveryv1.EndpointSlice{slice("a-1", endpoint("10.0.0.1", nil), endpoint("10.0.0.2", nil)), six},
			[]proxy.Check{{Port: 32000, Endpoints: 2}, {Port: 32000, Is6: true, Endpoints: 1}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := proxy.ChecksOf(row.service, row.slices, here()); !reflect.DeepEqual(got, row.want) {
				t.Errorf("%+v, want %+v", got, row.want)
			}
		})
	}
}

func TestChecks(t *testing.T) {
	run(t, func(t *testing.T) {
		var checks memory.Checks
		w := start(t, func(w *world) {
			w.services.Put(balanced(nil))
			w.slices.Put(slice("a-1", endpoint("10.0.0.1", nil)))
		}, proxy.Options{Checks: &checks})
		defer w.stop()
		expect := func(when string, want int) {
			t.Helper()
			s, check, ok := checks.At(32000, false)
			if ok != (want >= 0) || ok && (check.Endpoints != want || s != proxy.Service{Namespace: "default", Name: "a"}) {
				t.Errorf("%s: %v, %+v, %v, want %d endpoints", when, s, check, ok, want)
			}
		}
		expect("at first", 1)
		time.Sleep(time.Minute)
		w.writer.fail.Store(true)
		w.slices.Put(slice("a-1", endpoint("10.0.0.1", nil), endpoint("10.0.0.2", nil)))
		synctest.Wait()
		expect("before the tables are written", 1)
		w.writer.fail.Store(false)
		time.Sleep(time.Minute)
		expect("once they are", 2)
		// An endpoint that is not of the service's port changes the check alone.
		w.slices.Put(slice("a-1", endpoint("10.0.0.1", nil), endpoint("10.0.0.2", nil)))
		more := slice("a-2", endpoint("10.0.0.3", nil))
		more.Ports[0].Name = new("other")
		w.slices.Put(more)
		time.Sleep(time.Minute)
		expect("without a change of the tables", 3)
		w.services.Delete("default", "a")
		time.Sleep(time.Minute)
		expect("without the service", -1)
	})
}

func TestHealth(t *testing.T) {
	run(t, func(t *testing.T) {
		health := proxy.NewHealth(0)
		if healthy, updated := health.State(); !healthy || !updated.IsZero() {
			t.Errorf("before it runs: %v, %v", healthy, updated)
		}
		w := start(t, func(w *world) {
			w.services.Put(service(nil))
			w.writer.fail.Store(true)
		}, proxy.Options{Health: health})
		defer w.stop()
		began := time.Now()
		expect := func(when string, want bool) {
			t.Helper()
			if healthy, _ := health.State(); healthy != want {
				t.Errorf("%s: healthy: %v", when, healthy)
			}
		}
		expect("while it starts", true)
		if _, updated := health.State(); !updated.Equal(began) {
			t.Errorf("updated at %v, not when it began", updated)
		}
		time.Sleep(59 * time.Second)
		w.slices.Put(slice("a-1", endpoint("10.0.0.1", nil)))
		expect("before the first write is late", true)
		time.Sleep(time.Second)
		synctest.Wait()
		expect("when it is", false)
		w.writer.fail.Store(false)
		time.Sleep(time.Second)
		synctest.Wait()
		expect("once it is written", true)
		if _, updated := health.State(); !updated.Equal(time.Now()) {
			t.Errorf("updated at %v, not now", updated)
		}
		time.Sleep(time.Hour)
		expect("without changes", true)
		w.slices.Put(slice("a-1", endpoint("10.0.0.1", conditions(true, true, false))))
		time.Sleep(time.Hour)
		expect("after a change that changes no table", true)
		w.writer.fail.Store(true)
		w.writer.lost.Store(true)
		time.Sleep(62 * time.Second)
		expect("when lost tables cannot be repaired", false)
	})
}
