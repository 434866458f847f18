package networking_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/keelson-dev/keelson/registry/networking"
	"github.com/keelson-dev/keelson/registry/registrytest"
)

// These are the most common rules; TestAsUpstream covers all of them.

func TestIngress(t *testing.T) {
	type change = registrytest.Change[*networkingv1.Ingress]
	k := registrytest.Find(t, networking.Kinds(), "ingresses")
	backend := networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{
		Name: "web", Port: networkingv1.ServiceBackendPort{Number: 80},
	}}
	good := &networkingv1.Ingress{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "ns"},
		Spec: networkingv1.IngressSpec{Rules: []networkingv1.IngressRule{{
			Host: "example.com",
			IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{{
				Path: "/", PathType: new(networkingv1.PathTypePrefix), Backend: backend,
			}}}},
		}}},
	}
	path := func(f func(p *networkingv1.HTTPIngressPath)) func(*networkingv1.Ingress) {
		return func(in *networkingv1.Ingress) { f(&in.Spec.Rules[0].HTTP.Paths[0]) }
	}
	registrytest.Create(t, k, good, []change{
		{Name: "all to one", To: func(in *networkingv1.Ingress) { in.Spec = networkingv1.IngressSpec{DefaultBackend: &backend} }},
		{Name: "nothing", To: func(in *networkingv1.Ingress) { in.Spec = networkingv1.IngressSpec{} }, Refused: []string{
			"spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"}},
		{Name: "an address", To: func(in *networkingv1.Ingress) { in.Spec.Rules[0].Host = "10.0.0.1" }, Refused: []string{
			`spec.rules[0].host: Invalid value: "10.0.0.1": must be a DNS name, not an IP address`}},
		{Name: "two classes", To: func(in *networkingv1.Ingress) {
			in.Annotations, in.Spec.IngressClassName = map[string]string{"kubernetes.io/ingress.class": "a"}, new("b")
		}, Refused: []string{"annotations.kubernetes.io/ingress.class: Invalid value: \"a\": must match `ingressClassName` when both are specified"}},
		{Name: "a path without a type", To: path(func(p *networkingv1.HTTPIngressPath) { p.PathType = nil }), Refused: []string{
			"spec.rules[0].http.paths[0].pathType: Required value: pathType must be specified"}},
		{Name: "a path up", To: path(func(p *networkingv1.HTTPIngressPath) { p.Path = "a//b/.." }), Refused: []string{
			`spec.rules[0].http.paths[0].path: Invalid value: "a//b/..": must be an absolute path`,
			`spec.rules[0].http.paths[0].path: Invalid value: "a//b/..": must not contain '//'`,
			`spec.rules[0].http.paths[0].path: Invalid value: "a//b/..": cannot end with '/..'`}},
		{Name: "to no port", To: path(func(p *networkingv1.HTTPIngressPath) { p.Backend.Service.Port.Number = 0 }), Refused: []string{
			"spec.rules[0].http.paths[0].backend: Required value: port name or number is required"}},
	})
	registrytest.Update(t, k, "status", good, []change{
		{Name: "an address", To: func(in *networkingv1.Ingress) {
			in.Status.LoadBalancer.Ingress = []networkingv1.IngressLoadBalancerIngress{{IP: "10.0.0.1"}}
		}},
		{Name: "no address", To: func(in *networkingv1.Ingress) {
			in.Status.LoadBalancer.Ingress = []networkingv1.IngressLoadBalancerIngress{{IP: "a"}}
		}, Refused: []string{`status.loadBalancer.ingress[0].ip: Invalid value: "a": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)`}},
	})
	if cells := k.Columns.Cells(good, time.Now()); fmt.Sprint(cells) != "[a <none> example.com  80 <unknown>]" {
		t.Errorf("shown as %v", cells)
	}
}

func TestIngressClass(t *testing.T) {
	type change = registrytest.Change[*networkingv1.IngressClass]
	k := registrytest.Find(t, networking.Kinds(), "ingressclasses")
	good := &networkingv1.IngressClass{
		ObjectMeta: metav1.ObjectMeta{Name: "a"},
		Spec: networkingv1.IngressClassSpec{
			Controller: "example.com/c", Parameters: &networkingv1.IngressClassParametersReference{Kind: "K", Name: "n"},
		},
	}
	spec := func(f func(s *networkingv1.IngressClassSpec)) func(*networkingv1.IngressClass) {
		return func(class *networkingv1.IngressClass) { f(&class.Spec) }
	}
	registrytest.Create(t, k, good, []change{
		{Name: "without parameters", To: spec(func(s *networkingv1.IngressClassSpec) { s.Parameters = nil })},
		{Name: "a long name", To: spec(func(s *networkingv1.IngressClassSpec) { s.Controller = "a/" + strings.Repeat("x", 250) }), Refused: []string{
			"spec.controller: Too long: may not be more than 250 bytes"}},
		{Name: "parameters of no namespace", To: spec(func(s *networkingv1.IngressClassSpec) { s.Parameters.Scope = new("Namespace") }), Refused: []string{
			"spec.parameters.namespace: Required value: `parameters.scope` is set to 'Namespace'"}},
		{Name: "parameters of nothing", To: spec(func(s *networkingv1.IngressClassSpec) { s.Parameters.Kind = "" }), Refused: []string{
			"spec.parameters.kind: Required value"}},
	})
	registrytest.Update(t, k, "", good, []change{
		{Name: "another controller", To: spec(func(s *networkingv1.IngressClassSpec) { s.Controller = "example.com/d" }), Refused: []string{
			`spec.controller: Invalid value: "example.com/d": field is immutable`}},
		{Name: "other parameters", To: spec(func(s *networkingv1.IngressClassSpec) { s.Parameters.Name = "m" })},
	})
}

func TestNetworkPolicy(t *testing.T) {
	type change = registrytest.Change[*networkingv1.NetworkPolicy]
	k := registrytest.Find(t, networking.Kinds(), "networkpolicies")
	good := &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "ns"},
		Spec: networkingv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{{
			Ports: []networkingv1.NetworkPolicyPort{{Port: new(intstr.FromInt32(80))}},
			From:  []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: "10.0.0.0/8"}}},
		}}},
	}
	rule := func(f func(r *networkingv1.NetworkPolicyIngressRule)) func(*networkingv1.NetworkPolicy) {
		return func(policy *networkingv1.NetworkPolicy) { f(&policy.Spec.Ingress[0]) }
	}
	registrytest.Create(t, k, good, []change{
		{Name: "a range of ports", To: rule(func(r *networkingv1.NetworkPolicyIngressRule) { r.Ports[0].EndPort = new(int32(90)) })},
		{Name: "a range of ports backwards", To: rule(func(r *networkingv1.NetworkPolicyIngressRule) { r.Ports[0].EndPort = new(int32(70)) }), Refused: []string{
			`spec.ingress[0].ports[0].endPort: Invalid value: 70: must be greater than or equal to ` + "`port`"}},
		{Name: "no peer", To: rule(func(r *networkingv1.NetworkPolicyIngressRule) { r.From[0].IPBlock = nil }), Refused: []string{
			"spec.ingress[0].from[0]: Required value: must specify a peer"}},
		{Name: "but for another network", To: rule(func(r *networkingv1.NetworkPolicyIngressRule) { r.From[0].IPBlock.Except = []string{"11.0.0.0/16"} }), Refused: []string{
			`spec.ingress[0].from[0].ipBlock.except[0]: Invalid value: "11.0.0.0/16": must be a strict subset of ` + "`cidr`"}},
		{Name: "a type of its own", To: func(policy *networkingv1.NetworkPolicy) {
			policy.Spec.PolicyTypes = []networkingv1.PolicyType{"Both"}
		}, Refused: []string{`spec.policyTypes[0]: Unsupported value: "Both": supported values: "Ingress", "Egress"`}},
	})
	made := good.DeepCopy()
	made.Spec.Egress = []networkingv1.NetworkPolicyEgressRule{{}}
	registrytest.Prepare(k, made)
	if got := fmt.Sprintf("%v %s %d", made.Spec.PolicyTypes, *made.Spec.Ingress[0].Ports[0].Protocol, made.Generation); got != "[Ingress Egress] TCP 1" {
		t.Errorf("made %s", got)
	}
}
