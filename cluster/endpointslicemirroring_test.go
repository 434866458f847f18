package cluster_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// customEndpoints makes a service without a selector, and its Endpoints by hand.
func (w *world) customEndpoints(name, ip string) {
	w.t.Helper()
	_, err := w.cs.CoreV1().Services("default").Create(w.ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 5432}}},
	}, metav1.CreateOptions{})
	w.check(err)
	_, err = w.cs.CoreV1().Endpoints("default").Create(w.ctx, &corev1.Endpoints{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Subsets:    []corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{{IP: ip}}, Ports: []corev1.EndpointPort{{Port: 5432}}}},
	}, metav1.CreateOptions{})
	w.check(err)
}

func (w *world) slicesOf(service string) []discoveryv1.EndpointSlice {
	w.t.Helper()
	l, err := w.cs.DiscoveryV1().EndpointSlices("default").List(w.ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + service})
	w.check(err)
	return l.Items
}

// wrote reports whether a user wrote anything.
func (w *witness) wrote(user string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.writers[user] != nil
}

// TestMirroredEndpoints: endpoints written by hand are in a slice, and go with it; nothing is refused to the controller.
func TestMirroredEndpoints(t *testing.T) {
	seen := newWitness()
	inBubble(t, seen.options(nodes(0)), func(t *testing.T, w *world) {
		w.customEndpoints("database", "192.0.2.1")
		time.Sleep(time.Minute)
		all := w.slicesOf("database")
		if len(all) != 1 || all[0].Endpoints[0].Addresses[0] != "192.0.2.1" || *all[0].Ports[0].Port != 5432 {
			t.Fatalf("slices %v", all)
		}
		w.check(w.cs.DiscoveryV1().EndpointSlices("default").Delete(w.ctx, all[0].Name, metav1.DeleteOptions{}))
		time.Sleep(time.Minute)
		if all = w.slicesOf("database"); len(all) != 1 {
			t.Errorf("after its deletion %v", all)
		}
		w.check(w.cs.CoreV1().Endpoints("default").Delete(w.ctx, "database", metav1.DeleteOptions{}))
		time.Sleep(time.Minute)
		if all = w.slicesOf("database"); len(all) != 0 {
			t.Errorf("without endpoints %v", all)
		}
		if !seen.wrote("system:serviceaccount:kube-system:endpointslicemirroring-controller") {
			t.Error("the controller did not act as itself")
		}
		for _, bad := range seen.violations(t, w.c) {
			t.Error(bad)
		}
	})
}
