package cluster_test

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// moreAddresses creates a ServiceCIDR.
func (w *world) moreAddresses(name, network string) {
	w.t.Helper()
	_, err := w.cs.NetworkingV1().ServiceCIDRs().Create(w.ctx, &networkingv1.ServiceCIDR{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{network}},
	}, metav1.CreateOptions{})
	w.check(err)
}

// TestServiceCIDRs: services get addresses of a further ServiceCIDR, which stays while they have them; nothing is refused to the
// controller.
func TestServiceCIDRs(t *testing.T) {
	seen := newWitness()
	inBubble(t, seen.options(nodes(0)), func(t *testing.T, w *world) {
		w.moreAddresses("more", "192.168.7.0/24")
		time.Sleep(time.Minute)
		cidr, err := w.cs.NetworkingV1().ServiceCIDRs().Get(w.ctx, "more", metav1.GetOptions{})
		w.check(err)
		if !slices.Contains(cidr.Finalizers, "networking.k8s.io/service-cidr-finalizer") || len(cidr.Status.Conditions) != 1 || cidr.Status.Conditions[0].Status != "True" {
			t.Errorf("%v", cidr)
		}
		if !slices.ContainsFunc(cidr.ManagedFields, func(m metav1.ManagedFieldsEntry) bool {
			return m.Manager == "service-cidr-controller" && m.Operation == metav1.ManagedFieldsOperationApply && m.Subresource == "status"
		}) {
			t.Errorf("its condition belongs to nobody: %v", cidr.ManagedFields)
		}
		_, err = w.cs.CoreV1().Services("default").Create(w.ctx, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: "far"}, Spec: corev1.ServiceSpec{ClusterIP: "192.168.7.7", Ports: []corev1.ServicePort{{Port: 80}}},
		}, metav1.CreateOptions{})
		w.check(err)
		w.check(w.cs.NetworkingV1().ServiceCIDRs().Delete(w.ctx, "more", metav1.DeleteOptions{}))
		time.Sleep(time.Hour)
		cidr, err = w.cs.NetworkingV1().ServiceCIDRs().Get(w.ctx, "more", metav1.GetOptions{})
		w.check(err)
		if c := cidr.Status.Conditions; len(c) != 1 || c[0].Status != "False" || c[0].Reason != "Terminating" {
			t.Errorf("while an address is in use: %v", c)
		}
		w.check(w.cs.CoreV1().Services("default").Delete(w.ctx, "far", metav1.DeleteOptions{}))
		time.Sleep(time.Minute)
		if _, err = w.cs.NetworkingV1().ServiceCIDRs().Get(w.ctx, "more", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("without users: %v", err)
		}
		if !seen.wrote("system:serviceaccount:kube-system:service-cidrs-controller") {
			t.Error("the controller did not act as itself")
		}
		for _, bad := range seen.violations(t, w.c) {
			t.Error(bad)
		}
	})
}

func withoutServiceCIDRs(w *world) {
	w.moreAddresses("more", "192.168.7.0/24")
	time.Sleep(time.Minute)
	cidr, err := w.cs.NetworkingV1().ServiceCIDRs().Get(w.ctx, "more", metav1.GetOptions{})
	w.check(err)
	if len(cidr.Finalizers)+len(cidr.Status.Conditions) > 0 {
		w.t.Errorf("somebody protected a ServiceCIDR: %v", cidr)
	}
}
