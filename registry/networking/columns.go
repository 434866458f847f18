package networking

import (
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

// parentName is what an address is for, such as "services/default/web".
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
