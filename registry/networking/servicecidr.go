package networking

import (
	"context"
	"net/netip"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/keelson-dev/keelson/registry"
)

// DefaultServiceCIDR is the name of the default ServiceCIDR of every cluster.
const DefaultServiceCIDR = "kubernetes"

const immutable = "field is immutable"

// Default returns the default ServiceCIDR: one network, or one of each family with that of the primary family
// first.
func Default(networks []netip.Prefix) *networkingv1.ServiceCIDR {
	cidr := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: DefaultServiceCIDR}}
	for _, network := range networks {
		cidr.Spec.CIDRs = append(cidr.Spec.CIDRs, network.Masked().String())
	}
	return cidr
}

// Ready is the condition by which the server declares the default ServiceCIDR ready. A ServiceCIDR without a
// condition Ready counts as ready, too.
func Ready() metav1.Condition {
	return metav1.Condition{
		Type: networkingv1.ServiceCIDRConditionReady, Status: metav1.ConditionTrue,
		Message:            "Kubernetes default Service CIDR is ready",
		LastTransitionTime: metav1.NewTime(time.Now().Truncate(time.Second)),
	}
}

func serviceCIDRs() registry.Kind {
	parts := registry.Parts[*networkingv1.ServiceCIDR]{
		Spec:      registry.PartOf(func(cidr *networkingv1.ServiceCIDR) *networkingv1.ServiceCIDRSpec { return &cidr.Spec }),
		Status:    registry.PartOf(func(cidr *networkingv1.ServiceCIDR) *networkingv1.ServiceCIDRStatus { return &cidr.Status }),
		Uncounted: true,
	}
	return registry.Definition[*networkingv1.ServiceCIDR]{
		Names:        registry.Names{Kind: "ServiceCIDR", Plural: "servicecidrs", Singular: "servicecidr"},
		GroupVersion: networkingv1.SchemeGroupVersion,
		New:          func() *networkingv1.ServiceCIDR { return &networkingv1.ServiceCIDR{} },
		NewList:      func() runtime.Object { return &networkingv1.ServiceCIDRList{} },
		Columns:      cidrColumns(),
		Rules: registry.Rules[*networkingv1.ServiceCIDR]{
			PrepareCreate:  parts.PrepareCreate,
			PrepareUpdate:  parts.PrepareUpdate,
			Validate:       func(cidr *networkingv1.ServiceCIDR) field.ErrorList { return validateNetworks(cidr.Spec.CIDRs) },
			ValidateUpdate: validateNetworksChange,
		},
		Sub: registry.Subresources[*networkingv1.ServiceCIDR]{Views: map[string]registry.View[*networkingv1.ServiceCIDR]{"status": {
			PrepareUpdate: func(ctx context.Context, cidr, old *networkingv1.ServiceCIDR) {
				parts.PrepareStatus(ctx, cidr, old)
				metav1.ResetObjectMetaForStatus(&cidr.ObjectMeta, old.ObjectMeta.DeepCopy())
			},
			Resets: []string{"metadata", "spec"},
		}}},
	}.Kind()
}

// shownSpec is the form of a spec in errors.
type shownSpec struct{ CIDRs []string }

func validateNetworks(networks []string) field.ErrorList {
	path := field.NewPath("spec", "cidrs")
	switch n := len(networks); {
	case n == 0:
		return field.ErrorList{field.Required(path, "at least one CIDR required")}
	case n > 2:
		return field.ErrorList{field.Invalid(path, shownSpec{networks}, "may only hold up to 2 values")}
	}
	var errs field.ErrorList
	for i, network := range networks {
		errs = append(errs, validation.IsValidCIDR(path.Index(i), network)...)
	}
	if len(networks) == 2 {
		family := netutils.IPFamilyOfCIDRString(networks[0])
		if family != netutils.IPFamilyUnknown && family == netutils.IPFamilyOfCIDRString(networks[1]) {
			errs = append(errs, field.Invalid(path, networks,
				"may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"))
		}
	}
	return errs
}

// validateNetworksChange allows adding a network of the other family; nothing else may change.
func validateNetworksChange(cidr, old *networkingv1.ServiceCIDR) field.ErrorList {
	path := field.NewPath("spec", "cidrs")
	networks, before := cidr.Spec.CIDRs, old.Spec.CIDRs
	var errs field.ErrorList
	switch {
	case len(networks) == len(before):
		for i := range before {
			if networks[i] != before[i] {
				errs = append(errs, field.Invalid(path.Index(i), networks[i], immutable))
			}
		}
		return errs
	case len(before) == 1 && len(networks) == 2:
		if networks[0] != before[0] {
			errs = append(errs, field.Invalid(path.Index(0), networks[0], immutable))
		}
		return append(errs, validateNetworks(networks)...)
	}
	return field.ErrorList{field.Invalid(path, networks, immutable)}
}
