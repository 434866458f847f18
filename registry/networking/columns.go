package networking

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/registry"
)

func cidrColumns() registry.Columns[*networkingv1.ServiceCIDR] {
	return registry.Columns[*networkingv1.ServiceCIDR]{
		Definitions: []metav1.TableColumnDefinition{
			registry.NameColumn(),
			registry.TextColumn("CIDRs", networkingv1.ServiceCIDRSpec{}.SwaggerDoc()["cidrs"]),
			registry.AgeColumn(),
		},
		Cells: func(cidr *networkingv1.ServiceCIDR, now time.Time) []any {
			return []any{cidr.Name, strings.Join(cidr.Spec.CIDRs, ","), registry.Age(cidr.CreationTimestamp, now)}
		},
	}
}

func addressColumns() registry.Columns[*networkingv1.IPAddress] {
	return registry.Columns[*networkingv1.IPAddress]{
		Definitions: []metav1.TableColumnDefinition{
			registry.NameColumn(),
			registry.TextColumn("ParentRef", networkingv1.IPAddressSpec{}.SwaggerDoc()["parentRef"]),
		},
		Cells: func(ip *networkingv1.IPAddress, _ time.Time) []any {
			return []any{ip.Name, parentName(ip.Spec.ParentRef)}
		},
	}
}

// parentName returns what an address belongs to, such as "services/default/web".
func parentName(p *networkingv1.ParentReference) string {
	if p == nil {
		return "<none>"
	}
	resource := schema.GroupResource{Group: p.Group, Resource: p.Resource}
	name := strings.ToLower(resource.String()) + "/"
	if p.Namespace != "" {
		name += p.Namespace + "/"
	}
	return name + p.Name
}

func ingressColumns() registry.Columns[*networkingv1.Ingress] {
	return registry.Columns[*networkingv1.Ingress]{
		Definitions: []metav1.TableColumnDefinition{
			registry.NameColumn(),
			registry.TextColumn("Class", "The name of the IngressClass resource that should be used for additional configuration"),
			registry.TextColumn("Hosts", "Hosts that incoming requests are matched against before the ingress rule"),
			registry.TextColumn("Address", "Address is a list containing ingress points for the load-balancer"),
			registry.TextColumn("Ports", "Ports of TLS configurations that open"),
			registry.AgeColumn(),
		},
		Cells: func(in *networkingv1.Ingress, now time.Time) []any {
			class, ports := "<none>", "80"
			if in.Spec.IngressClassName != nil {
				class = *in.Spec.IngressClassName
			}
			if len(in.Spec.TLS) > 0 {
				ports = "80, 443"
			}
			points := map[string]bool{}
			for _, p := range in.Status.LoadBalancer.Ingress {
				if point := cmp.Or(p.IP, p.Hostname); point != "" {
					points[point] = true
				}
			}
			address := strings.Join(slices.Sorted(maps.Keys(points)), ",")
			return []any{in.Name, class, hostNames(in.Spec.Rules), address, ports, registry.Age(in.CreationTimestamp, now)}
		},
	}
}

// hostNames returns the first three hosts of rules, and how many more rules there are.
func hostNames(rules []networkingv1.IngressRule) string {
	const shown = 3
	var hosts []string
	more := false
	for _, rule := range rules {
		more = more || len(hosts) == shown
		if !more && rule.Host != "" {
			hosts = append(hosts, rule.Host)
		}
	}
	list := strings.Join(hosts, ",")
	switch {
	case len(hosts) == 0:
		return "*"
	case more:
		return fmt.Sprintf("%s + %d more...", list, len(rules)-shown)
	}
	return list
}

func classColumns() registry.Columns[*networkingv1.IngressClass] {
	return registry.Columns[*networkingv1.IngressClass]{
		Definitions: []metav1.TableColumnDefinition{
			registry.NameColumn(),
			registry.TextColumn("Controller", "Controller that is responsible for handling this class"),
			registry.TextColumn("Parameters", "A reference to a resource with additional parameters"),
			registry.AgeColumn(),
		},
		Cells: func(class *networkingv1.IngressClass, now time.Time) []any {
			name, parameters := class.Name, "<none>"
			if class.Annotations[networkingv1.AnnotationIsDefaultIngressClass] == "true" {
				name += " (default)"
			}
			if p := class.Spec.Parameters; p != nil {
				parameters = p.Kind
				if p.APIGroup != nil {
					parameters += "." + *p.APIGroup
				}
				parameters += "/" + p.Name
			}
			return []any{name, class.Spec.Controller, parameters, registry.Age(class.CreationTimestamp, now)}
		},
	}
}

func policyColumns() registry.Columns[*networkingv1.NetworkPolicy] {
	return registry.Columns[*networkingv1.NetworkPolicy]{
		Definitions: []metav1.TableColumnDefinition{
			registry.NameColumn(),
			registry.TextColumn("Pod-Selector", networkingv1.NetworkPolicySpec{}.SwaggerDoc()["podSelector"]),
			registry.AgeColumn(),
		},
		Cells: func(policy *networkingv1.NetworkPolicy, now time.Time) []any {
			return []any{policy.Name, metav1.FormatLabelSelector(&policy.Spec.PodSelector), registry.Age(policy.CreationTimestamp, now)}
		},
	}
}
