package cluster_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/cri/simulated"
)

func serviceOf(app string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: app},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": app},
			Ports:    []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080)}},
		},
	}
}

// endpoints renders the Endpoints and the EndpointSlices of a service in one line each: pods that serve, and pods that
// do not, by name.
func (w *world) endpoints(service string) (old, slice string) {
	w.t.Helper()
	ep, err := w.cs.CoreV1().Endpoints("default").Get(w.ctx, service, metav1.GetOptions{})
	w.check(err)
	var ready, not []string
	for _, s := range ep.Subsets {
		for _, a := range s.Addresses {
			ready = append(ready, a.TargetRef.Name)
		}
		for _, a := range s.NotReadyAddresses {
			not = append(not, a.TargetRef.Name)
		}
	}
	old = readiness(ready, not)
	list, err := w.cs.DiscoveryV1().EndpointSlices("default").List(w.ctx, metav1.ListOptions{
		LabelSelector: discoveryv1.LabelServiceName + "=" + service,
	})
	w.check(err)
	ready, not = nil, nil
	for _, s := range list.Items {
		for _, e := range s.Endpoints {
			name := e.TargetRef.Name
			if *e.Conditions.Terminating {
				name += "(terminating)"
			}
			if *e.Conditions.Ready {
				ready = append(ready, name)
			} else {
				not = append(not, name)
			}
		}
	}
	return old, readiness(ready, not)
}

func readiness(ready, not []string) string {
	slices.Sort(ready)
	slices.Sort(not)
	return strings.Join(ready, " ") + " | " + strings.Join(not, " ")
}

// TestEndpoints follows pods through their lives: not ready yet, ready, unready, terminating, gone,
// without the label.
func TestEndpoints(t *testing.T) {
	var sick atomic.Pointer[string]
	o := programs(func(p simulated.Process) simulated.Program {
		return simulated.Program{StopAfter: 5 * time.Second, Exec: func([]string) cri.ExecResult {
			if name := sick.Load(); name != nil && *name == p.Pod.Name {
				return cri.ExecResult{ExitCode: 1}
			}
			return cri.ExecResult{}
		}}
	})
	inBubble(t, o, func(t *testing.T, w *world) {
		_, err := w.cs.CoreV1().Services("default").Create(w.ctx, serviceOf("web"), metav1.CreateOptions{})
		w.check(err)
		step := func(what, wantOld, wantSlice string) {
			t.Helper()
			old, slice := w.endpoints("web")
			if old != wantOld {
				t.Errorf("%s: endpoints are %q, want %q", what, old, wantOld)
			}
			if slice != wantSlice {
				t.Errorf("%s: endpoint slices are %q, want %q", what, slice, wantSlice)
			}
		}
		for _, name := range []string{"a", "b", "c"} {
			pod := testPod(name)
			pod.Labels = map[string]string{"app": "web"}
			pod.Spec.Containers[0].ReadinessProbe = &corev1.Probe{
				ProbeHandler:        corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"healthy"}}},
				InitialDelaySeconds: 10, PeriodSeconds: 1, FailureThreshold: 2,
			}
			_, err := w.pods.Create(w.ctx, pod, metav1.CreateOptions{})
			w.check(err)
		}
		time.Sleep(5 * time.Second)
		step("not ready yet", " | a b c", " | a b c")
		time.Sleep(10 * time.Second)
		step("ready", "a b c | ", "a b c | ")
		w.addresses("web", "a")

		sick.Store(new("b"))
		time.Sleep(5 * time.Second)
		step("one is unready", "a c | b", "a c | b")
		sick.Store(nil)
		time.Sleep(5 * time.Second)
		step("and recovers", "a b c | ", "a b c | ")

		w.check(w.pods.Delete(w.ctx, "c", metav1.DeleteOptions{}))
		time.Sleep(2 * time.Second)
		step("one terminates", "a b | ", "a b | c(terminating)")
		time.Sleep(5 * time.Second)
		step("and is gone", "a b | ", "a b | ")

		pod, err := w.pods.Get(w.ctx, "b", metav1.GetOptions{})
		w.check(err)
		pod.Labels = nil
		_, err = w.pods.Update(w.ctx, pod, metav1.UpdateOptions{})
		w.check(err)
		time.Sleep(2 * time.Second)
		step("one has lost its label", "a | ", "a | ")

		w.check(w.cs.CoreV1().Services("default").Delete(w.ctx, "web", metav1.DeleteOptions{}))
		time.Sleep(2 * time.Second)
		if _, err := w.cs.CoreV1().Endpoints("default").Get(w.ctx, "web", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("endpoints without a service: %v", err)
		}
		l, err := w.cs.DiscoveryV1().EndpointSlices("default").List(w.ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=web"})
		if err != nil || len(l.Items) > 0 {
			t.Errorf("endpoint slices without a service: %v %v", l.Items, err)
		}
	})
}

// addresses checks everything that is published about one pod.
func (w *world) addresses(service, name string) {
	w.t.Helper()
	pod, err := w.pods.Get(w.ctx, name, metav1.GetOptions{})
	w.check(err)
	l, err := w.cs.DiscoveryV1().EndpointSlices("default").List(w.ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + service})
	w.check(err)
	slice := l.Items[0]
	if len(l.Items) != 1 || slice.AddressType != discoveryv1.AddressTypeIPv4 || *slice.Ports[0].Name != "http" || *slice.Ports[0].Port != 8080 {
		w.t.Errorf("slices are %+v", l.Items)
	}
	i := slices.IndexFunc(slice.Endpoints, func(e discoveryv1.Endpoint) bool { return e.TargetRef.UID == pod.UID })
	if i < 0 || fmt.Sprint(slice.Endpoints[i].Addresses) != "["+pod.Status.PodIP+"]" || *slice.Endpoints[i].NodeName != "node-0" || !*slice.Endpoints[i].Conditions.Serving {
		w.t.Errorf("of %s at %s: %+v", name, pod.Status.PodIP, slice.Endpoints)
	}
}

// TestServiceRollout: a service always has a serving pod while its deployment rolls out.
func TestServiceRollout(t *testing.T) {
	inBubble(t, nodes(2), func(t *testing.T, w *world) {
		_, err := w.cs.CoreV1().Services("default").Create(w.ctx, serviceOf("web"), metav1.CreateOptions{})
		w.check(err)
		w.create(deploymentOf("web", 2))
		time.Sleep(10 * time.Second)
		w.change("web", image("nginx:2"))
		for range 100 {
			time.Sleep(100 * time.Millisecond)
			if old, _ := w.endpoints("web"); strings.HasPrefix(old, " |") {
				t.Fatalf("nothing serves: %q", old)
			}
		}
		pods := w.running("web", 2, "nginx:2")
		want := readiness([]string{pods[0].Name, pods[1].Name}, nil)
		if old, slice := w.endpoints("web"); old != want || slice != want {
			t.Errorf("after the rollout %q and %q, want %q", old, slice, want)
		}
	})
}

// TestHeadless: a service without a cluster IP has endpoints with the names of its pods.
func TestHeadless(t *testing.T) {
	inBubble(t, cluster.Options{Nodes: cluster.Nodes{Count: 1}}, func(t *testing.T, w *world) {
		service := serviceOf("db")
		service.Spec.ClusterIP = corev1.ClusterIPNone
		made, err := w.cs.CoreV1().Services("default").Create(w.ctx, service, metav1.CreateOptions{})
		w.check(err)
		if made.Spec.ClusterIP != corev1.ClusterIPNone {
			t.Errorf("cluster IP is %q", made.Spec.ClusterIP)
		}
		pod := testPod("db-0")
		pod.Labels = map[string]string{"app": "db"}
		pod.Spec.Hostname, pod.Spec.Subdomain = "db-0", "db"
		_, err = w.pods.Create(w.ctx, pod, metav1.CreateOptions{})
		w.check(err)
		time.Sleep(5 * time.Second)
		ep, err := w.cs.CoreV1().Endpoints("default").Get(w.ctx, "db", metav1.GetOptions{})
		w.check(err)
		if _, headless := ep.Labels[corev1.IsHeadlessService]; !headless || len(ep.Subsets) != 1 || ep.Subsets[0].Addresses[0].Hostname != "db-0" {
			t.Errorf("endpoints are %v %+v", ep.Labels, ep.Subsets)
		}
	})
}

// TestAddressTakenAwayComesBack: deleting the IPAddress of a service does not free it for another.
func TestAddressTakenAwayComesBack(t *testing.T) {
	inBubble(t, cluster.Options{}, func(t *testing.T, w *world) {
		svc, err := w.cs.CoreV1().Services("default").Create(w.ctx, serviceOf("web"), metav1.CreateOptions{})
		w.check(err)
		w.check(w.cs.NetworkingV1().IPAddresses().Delete(w.ctx, svc.Spec.ClusterIP, metav1.DeleteOptions{}))
		time.Sleep(3 * time.Second)
		ip, err := w.cs.NetworkingV1().IPAddresses().Get(w.ctx, svc.Spec.ClusterIP, metav1.GetOptions{})
		w.check(err)
		if ip.Spec.ParentRef == nil || ip.Spec.ParentRef.Name != "web" {
			t.Errorf("the address belongs to %+v", ip.Spec.ParentRef)
		}
	})
}
