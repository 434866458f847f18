package cluster_test

import (
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/component/controllermanager"
	"github.com/keelson-dev/keelson/controllers/loadbalancer"
)

// TestLoadBalancer: a service of that type gets an address; nothing is refused to the controller.
func TestLoadBalancer(t *testing.T) {
	seen := newWitness()
	o := seen.options(nodes(0))
	o.Components = append(cluster.DefaultComponents(), controllermanager.LoadBalancer(loadbalancer.Options{
		Ranges: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}, Default: true,
	}))
	inBubble(t, o, func(t *testing.T, w *world) {
		_, err := w.cs.CoreV1().Services("default").Create(w.ctx, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
		}, metav1.CreateOptions{})
		w.check(err)
		time.Sleep(time.Minute)
		s, err := w.cs.CoreV1().Services("default").Get(w.ctx, "web", metav1.GetOptions{})
		w.check(err)
		if in := s.Status.LoadBalancer.Ingress; len(in) != 1 || in[0].IP != "192.0.2.1" {
			t.Errorf("its status: %v", in)
		}
		events, err := w.cs.CoreV1().Events("default").List(w.ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=web,reason=EnsuredLoadBalancer"})
		w.check(err)
		if len(events.Items) != 1 || events.Items[0].Source.Component != "service-controller" {
			t.Errorf("events: %v", events.Items)
		}
		if !seen.wrote("system:serviceaccount:kube-system:service-controller") {
			t.Error("the controller did not act as itself")
		}
		for _, bad := range seen.violations(t, w.c) {
			t.Error(bad)
		}
	})
}
