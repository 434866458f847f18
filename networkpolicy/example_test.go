package networkpolicy_test

import (
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/networkpolicy"
)

// May one pod reach another, and which rule says so?
func Example() {
	pod := func(name, ip string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{"app": name}},
			Status:     corev1.PodStatus{PodIPs: []corev1.PodIP{{IP: ip}}},
		}
	}
	onlyWeb := &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "only-web"},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}},
			Ingress: []networkingv1.NetworkPolicyIngressRule{{
				From: []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}},
			}},
		},
	}
	tables, err := networkpolicy.Compile(networkpolicy.Cluster{
		Policies:   []*networkingv1.NetworkPolicy{onlyWeb},
		Namespaces: []*corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}},
		Pods:       []*corev1.Pod{pod("web", "10.64.0.1"), pod("db", "10.64.0.2"), pod("other", "10.64.0.3")},
	}, nil)
	if err != nil {
		panic(err)
	}
	for _, from := range []string{"10.64.0.1", "10.64.0.3"} {
		decision := tables.Decide(networkpolicy.Packet{
			From: netip.MustParseAddr(from), To: netip.MustParseAddrPort("10.64.0.2:5432"), Protocol: corev1.ProtocolTCP,
		})
		fmt.Println(decision)
	}
	// Output:
	// allowed: egress allowed by default, as no policy isolates it; ingress allowed by shop/only-web, ingress[0]
	// denied: egress allowed by default, as no policy isolates it; ingress denied: isolated by shop/only-web, and no rule allows it
}
