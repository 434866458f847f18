package backends_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/internal/backends"
	"github.com/keelson-dev/keelson/informer"
)

func TestPort(t *testing.T) {
	always, onFailure := corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicyOnFailure
	named := func(number int32, protocol corev1.Protocol) []corev1.ContainerPort {
		return []corev1.ContainerPort{{Name: "http", ContainerPort: number, Protocol: protocol}}
	}
	for name, tt := range map[string]struct {
		target intstr.IntOrString
		spec   corev1.PodSpec
		want   int32
	}{
		"number":                 {intstr.FromInt32(81), corev1.PodSpec{}, 81},
		"name":                   {intstr.FromString("http"), corev1.PodSpec{Containers: []corev1.Container{{}, {Ports: named(8080, corev1.ProtocolTCP)}}}, 8080},
		"other protocol":         {intstr.FromString("http"), corev1.PodSpec{Containers: []corev1.Container{{Ports: named(8080, corev1.ProtocolUDP)}}}, 0},
		"sidecar":                {intstr.FromString("http"), corev1.PodSpec{InitContainers: []corev1.Container{{RestartPolicy: &always, Ports: named(9090, corev1.ProtocolTCP)}}}, 9090},
		"init container":         {intstr.FromString("http"), corev1.PodSpec{InitContainers: []corev1.Container{{Ports: named(9090, corev1.ProtocolTCP)}}}, 0},
		"restarts when it fails": {intstr.FromString("http"), corev1.PodSpec{InitContainers: []corev1.Container{{RestartPolicy: &onFailure, Ports: named(9090, corev1.ProtocolTCP)}}}, 0},
		"second sidecar":         {intstr.FromString("http"), corev1.PodSpec{InitContainers: []corev1.Container{{RestartPolicy: &always}, {RestartPolicy: &always, Ports: named(9091, corev1.ProtocolTCP)}}}, 9091},
		"no such name":           {intstr.FromString("x"), corev1.PodSpec{Containers: []corev1.Container{{Ports: named(8080, corev1.ProtocolTCP)}}}, 0},
	} {
		got, ok := backends.Port(&corev1.Pod{Spec: tt.spec}, &corev1.ServicePort{TargetPort: tt.target, Protocol: corev1.ProtocolTCP})
		if got != tt.want || ok != (tt.want != 0) {
			t.Errorf("%s: %d, %t; want %d", name, got, ok, tt.want)
		}
	}
}

func TestReachable(t *testing.T) {
	address := []corev1.PodIP{{IP: "1.2.3.4"}}
	for name, tt := range map[string]struct {
		status corev1.PodStatus
		want   bool
	}{
		"new":                {corev1.PodStatus{Phase: corev1.PodPending}, false},
		"an address":         {corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "1.2.3.4"}, true},
		"addresses":          {corev1.PodStatus{Phase: corev1.PodRunning, PodIPs: address}, true},
		"both, and pending":  {corev1.PodStatus{Phase: corev1.PodPending, PodIP: "1.2.3.4", PodIPs: address}, true},
		"an empty list":      {corev1.PodStatus{Phase: corev1.PodRunning, PodIPs: []corev1.PodIP{}}, false},
		"ended with address": {corev1.PodStatus{Phase: corev1.PodSucceeded, PodIP: "1.2.3.4", PodIPs: address}, false},
		"failed":             {corev1.PodStatus{Phase: corev1.PodFailed, PodIPs: address}, false},
	} {
		if got := backends.Reachable(&corev1.Pod{Status: tt.status}); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestService: whose endpoints are written, whether they have an address, and the names of pods below theirs.
func TestService(t *testing.T) {
	app := map[string]string{"app": "web"}
	for name, tt := range map[string]struct {
		spec          corev1.ServiceSpec
		selected, has bool
	}{
		"ordinary":      {corev1.ServiceSpec{Selector: app, ClusterIP: "10.0.0.1"}, true, true},
		"headless":      {corev1.ServiceSpec{Selector: app, ClusterIP: "None"}, true, false},
		"not allocated": {corev1.ServiceSpec{Selector: map[string]string{}}, true, false},
		"by hand":       {corev1.ServiceSpec{ClusterIP: "10.0.0.1"}, false, true},
		"external":      {corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, Selector: app}, false, false},
	} {
		service := &corev1.Service{Spec: tt.spec}
		if backends.Selected(service) != tt.selected || backends.HasIP(service) != tt.has {
			t.Errorf("%s: selected %t, has an address %t", name, backends.Selected(service), backends.HasIP(service))
		}
	}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}}
	for _, tt := range []struct{ namespace, subdomain, want string }{
		{"ns", "web", "host"}, {"ns", "other", ""}, {"ns", "", ""}, {"other", "web", ""},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: tt.namespace}, Spec: corev1.PodSpec{Hostname: "host", Subdomain: tt.subdomain}}
		if got := backends.Hostname(service, pod); got != tt.want {
			t.Errorf("%s.%s: %q, want %q", tt.subdomain, tt.namespace, got, tt.want)
		}
	}
}

// TestHash: equal values have the same hash, whatever they point to, others another one; it is upstream's, which orders subsets.
func TestHash(t *testing.T) {
	one, same := int32(80), int32(80)
	if a, b := backends.Hash([]*int32{&one}), backends.Hash([]*int32{&same}); a != b || len(a) != 32 {
		t.Errorf("%s and %s", a, b)
	}
	if backends.Hash("a") == backends.Hash("b") {
		t.Error("all values have one hash")
	}
	if got, want := backends.Hash(corev1.EndpointPort{Name: "http", Port: 80}), "2d99d735b93aa9b9d80b0813b471bd2c"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestWatch: which services hear of a pod that comes, goes or changes.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := controllerstest.Start(t, controllerstest.Options{})
		resource := corev1.SchemeGroupVersion.WithResource("services")
		services := informer.New(controllerstest.Source[*corev1.Service](api, resource), informer.Options{})
		for name, selector := range map[string]map[string]string{"web": {"app": "web"}, "db": {"app": "db"}, "all": {"tier": "x"}, "manual": nil} {
			for _, namespace := range []string{"ns", "other"} {
				controllerstest.Add(t, api, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.ServiceSpec{Selector: selector}})
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- services.Run(ctx) }()
		synctest.Wait()
		var got []string
		handler := backends.Watch(services, func(k controllers.Key) { got = append(got, k.String()) })
		want := func(what, want string) {
			t.Helper()
			slices.Sort(got)
			if text := strings.Join(got, " "); text != want {
				t.Errorf("%s: %q, want %q", what, text, want)
			}
			got = nil
		}
		base := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Labels: map[string]string{"app": "web", "tier": "x"}}}
		base.Status.PodIPs = []corev1.PodIP{{IP: "1.2.3.4"}}
		handler.Added(base)
		want("added", "ns/all ns/web")
		handler.Deleted(base)
		want("deleted", "ns/all ns/web")
		handler.Added(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "nobody's"}})
		want("selected by none", "")
		for name, tt := range map[string]struct {
			change func(*corev1.Pod)
			want   string
		}{
			"nothing":     {func(*corev1.Pod) {}, ""},
			"annotations": {func(p *corev1.Pod) { p.Annotations = map[string]string{"a": "b"} }, ""},
			"a condition": {func(p *corev1.Pod) {
				p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}}
			}, ""},
			"relabeled":   {func(p *corev1.Pod) { p.Labels["app"] = "db" }, "ns/all ns/db ns/web"},
			"unlabeled":   {func(p *corev1.Pod) { p.Labels = nil }, "ns/all ns/web"},
			"hostname":    {func(p *corev1.Pod) { p.Spec.Hostname = "h" }, "ns/all ns/web"},
			"subdomain":   {func(p *corev1.Pod) { p.Spec.Subdomain = "web" }, "ns/all ns/web"},
			"terminating": {func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Now()} }, "ns/all ns/web"},
			"ended":       {func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, "ns/all ns/web"},
			"ready": {func(p *corev1.Pod) {
				p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
			}, "ns/all ns/web"},
			"one more IP": {func(p *corev1.Pod) { p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: "::1"}) }, "ns/all ns/web"},
			"no IP":       {func(p *corev1.Pod) { p.Status.PodIPs = nil }, "ns/all ns/web"},
			"another IP":  {func(p *corev1.Pod) { p.Status.PodIPs = []corev1.PodIP{{IP: "1.2.3.5"}} }, "ns/all ns/web"},
		} {
			pod := base.DeepCopy()
			tt.change(pod)
			handler.Updated(base, pod)
			want(name, tt.want)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestWaiting(t *testing.T) {
	w := backends.NewWaiting()
	a, b := controllers.Key{Name: "a"}, controllers.Key{Name: "b"}
	w.Add(a)
	for i, tt := range []struct {
		key  controllers.Key
		want bool
	}{{b, false}, {a, true}, {a, false}} {
		if got := w.Take(tt.key); got != tt.want {
			t.Errorf("take %d: %t", i, got)
		}
	}
}

func TestTriggers(t *testing.T) {
	at := func(second int64) time.Time { return time.Unix(second, 0) }
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", CreationTimestamp: metav1.NewTime(at(10))}}
	pod := func(name string, ready int64) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{
			Type: corev1.PodReady, LastTransitionTime: metav1.NewTime(at(ready))}}}}
	}
	triggers := backends.NewTriggers()
	for i, tt := range []struct {
		pods []*corev1.Pod
		want int64 // 0 is none
	}{
		{[]*corev1.Pod{pod("a", 20)}, 10}, // new: its creation
		{[]*corev1.Pod{pod("a", 20)}, 0},
		{[]*corev1.Pod{pod("a", 30), pod("b", 25)}, 25}, // the earliest change
		{[]*corev1.Pod{pod("a", 40), pod("b", 25)}, 40},
		{[]*corev1.Pod{pod("b", 25)}, 0},
		{[]*corev1.Pod{pod("b", 50), pod("c", 60), {ObjectMeta: metav1.ObjectMeta{Name: "unknown"}}}, 50},
		{[]*corev1.Pod{pod("b", 45)}, 0}, // it goes backwards: no change after what was known
	} {
		got := triggers.Time(service, tt.pods)
		if tt.want == 0 && !got.IsZero() || tt.want != 0 && !got.Equal(at(tt.want)) {
			t.Errorf("look %d: %v, want %d", i, got, tt.want)
		}
	}
	triggers.Forget(controllers.Key{Namespace: "ns", Name: "web"})
	if got := triggers.Time(service, nil); !got.Equal(at(10)) {
		t.Errorf("forgotten: %v", got)
	}
	again := service.DeepCopy()
	again.CreationTimestamp = metav1.NewTime(at(70))
	if got := triggers.Time(again, []*corev1.Pod{pod("a", 80)}); !got.Equal(at(70)) {
		t.Errorf("deleted and made again: %v", got)
	}
	again.Name = "late"
	if got := triggers.Time(again, []*corev1.Pod{pod("a", 5)}); !got.Equal(at(70)) {
		t.Errorf("new, with a pod that is older: %v", got)
	}
	const annotation = corev1.EndpointsLastChangeTriggerTime
	if got := backends.Annotate(nil, at(0)); got[annotation] != "1970-01-01T00:00:00Z" {
		t.Errorf("annotated %v", got)
	}
	if got := backends.Annotate(map[string]string{annotation: "x"}, time.Time{}); len(got) != 0 {
		t.Errorf("no trigger: %v", got)
	}
}
