package networking

import (
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/internal/check"
)

func ipAddresses() registry.Kind {
	return registry.Definition[*networkingv1.IPAddress]{
		Names: registry.Names{
			Kind: "IPAddress", Plural: "ipaddresses", Singular: "ipaddress", Short: []string{"ip"},
		},
		GroupVersion: networkingv1.SchemeGroupVersion,
		New:          func() *networkingv1.IPAddress { return &networkingv1.IPAddress{} },
		NewList:      func() runtime.Object { return &networkingv1.IPAddressList{} },
		Columns:      addressColumns(),
		Rules: registry.Rules[*networkingv1.IPAddress]{
			Validate:       func(ip *networkingv1.IPAddress) field.ErrorList { return validateAddress(ip, nil) },
			ValidateUpdate: validateAddress,
			ValidateName:   addressName,
		},
	}.Kind()
}

// addressName requires the canonical form of an address.
func addressName(name string, _ bool) []string {
	var messages []string
	for _, err := range validation.IsValidIP(nil, name) {
		messages = append(messages, err.Detail)
	}
	return messages
}

// validateAddress validates the reference of an address; old is the stored object of an update, or nil. Rules
// that upstream states as declarations on the API types come last.
func validateAddress(ip, old *networkingv1.IPAddress) field.ErrorList {
	path := field.NewPath("spec", "parentRef")
	parent := ip.Spec.ParentRef
	var errs, last field.ErrorList
	if parent == nil {
		last = append(last, field.Required(path, ""))
	} else {
		if parent.Group != "" {
			errs = append(errs, check.DNSSubdomain(path.Child("group"), parent.Group)...)
		}
		for _, f := range []struct{ name, value string }{{"resource", parent.Resource}, {"name", parent.Name}} {
			if f.value == "" {
				last = append(last, field.Required(path.Child(f.name), ""))
			} else {
				errs = append(errs, pathSegment(path.Child(f.name), f.value)...)
			}
		}
		if parent.Namespace != "" {
			errs = append(errs, pathSegment(path.Child("namespace"), parent.Namespace)...)
		}
	}
	if old != nil && !equality.Semantic.DeepEqual(parent, old.Spec.ParentRef) {
		changed := field.Invalid(path, nil, immutable)
		if parent == nil {
			last = append(last, changed)
		} else { // a changed reference is not validated any further
			last = field.ErrorList{changed}
		}
	}
	return append(errs, last...)
}

func pathSegment(path *field.Path, value string) field.ErrorList {
	return check.Messages(path, value, registry.PathSegmentName(value, false))
}
