package networking

import (
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/internal/check"
)

// classAnnotation is how ingresses named their class before the field existed.
const classAnnotation = "kubernetes.io/ingress.class"

func ingresses() registry.Kind {
	parts := registry.Parts[*networkingv1.Ingress]{
		Spec:   registry.PartOf(func(in *networkingv1.Ingress) *networkingv1.IngressSpec { return &in.Spec }),
		Status: registry.PartOf(func(in *networkingv1.Ingress) *networkingv1.IngressStatus { return &in.Status }),
	}
	return registry.Definition[*networkingv1.Ingress]{
		Names:        registry.Names{Kind: "Ingress", Plural: "ingresses", Singular: "ingress", Short: []string{"ing"}},
		GroupVersion: networkingv1.SchemeGroupVersion,
		Namespaced:   true,
		Prefix:       "ingress",
		Older:        olderIngresses(),
		New:          func() *networkingv1.Ingress { return &networkingv1.Ingress{} },
		NewList:      func() runtime.Object { return &networkingv1.IngressList{} },
		Columns:      ingressColumns(),
		Rules: registry.Rules[*networkingv1.Ingress]{
			PrepareCreate:  parts.PrepareCreate,
			PrepareUpdate:  parts.PrepareUpdate,
			Validate:       validateIngress,
			ValidateUpdate: func(in, old *networkingv1.Ingress) field.ErrorList { return leniencyOf(old).spec(&in.Spec) },
		},
		Sub: registry.Subresources[*networkingv1.Ingress]{Views: map[string]registry.View[*networkingv1.Ingress]{"status": {
			PrepareUpdate:  parts.PrepareStatus,
			ValidateUpdate: validateIngressStatus,
		}}},
	}.Kind()
}

func validateIngress(in *networkingv1.Ingress) field.ErrorList {
	errs := leniency{}.spec(&in.Spec)
	class, annotated := in.Annotations[classAnnotation]
	if annotated && in.Spec.IngressClassName != nil && class != *in.Spec.IngressClassName {
		errs = append(errs, field.Invalid(field.NewPath("annotations").Child(classAnnotation), class,
			"must match `ingressClassName` when both are specified"))
	}
	return errs
}

// leniency says which invalid values an ingress may keep because it was once accepted with them.
type leniency struct{ anySecretName, anyWildcardRule bool }

func leniencyOf(old *networkingv1.Ingress) leniency {
	var l leniency
	for _, tls := range old.Spec.TLS {
		l.anySecretName = l.anySecretName || len(secretName(nil, tls.SecretName)) > 0
	}
	for i := range old.Spec.Rules {
		rule := &old.Spec.Rules[i]
		l.anyWildcardRule = l.anyWildcardRule || strings.Contains(rule.Host, "*") && len(validatePaths(rule.HTTP, nil)) > 0
	}
	return l
}

func (l leniency) spec(spec *networkingv1.IngressSpec) field.ErrorList {
	path := field.NewPath("spec")
	var errs field.ErrorList
	if len(spec.Rules) == 0 && spec.DefaultBackend == nil {
		errs = append(errs, field.Invalid(path, spec.Rules, "either `defaultBackend` or `rules` must be specified"))
	}
	if spec.DefaultBackend != nil {
		errs = append(errs, validateBackend(spec.DefaultBackend, path.Child("defaultBackend"))...)
	}
	for i := range spec.Rules {
		rule, path := &spec.Rules[i], path.Child("rules").Index(i)
		if rule.Host != "" && netutils.ParseIPSloppy(rule.Host) != nil {
			errs = append(errs, field.Invalid(path.Child("host"), rule.Host, "must be a DNS name, not an IP address"))
		}
		if rule.Host != "" {
			errs = append(errs, hostName(path.Child("host"), rule.Host)...)
		}
		if !strings.Contains(rule.Host, "*") || !l.anyWildcardRule {
			errs = append(errs, validatePaths(rule.HTTP, path.Child("http"))...)
		}
	}
	for i, tls := range spec.TLS {
		path := path.Child("tls").Index(i)
		for j, host := range tls.Hosts {
			errs = append(errs, hostName(path.Child("hosts").Index(j), host)...)
		}
		if !l.anySecretName {
			errs = append(errs, secretName(path.Child("secretName"), tls.SecretName)...)
		}
	}
	if spec.IngressClassName != nil {
		errs = append(errs, check.DNSSubdomain(path.Child("ingressClassName"), *spec.IngressClassName)...)
	}
	return errs
}

// hostName requires the name of a host, or a wildcard for all names below one.
func hostName(path *field.Path, host string) field.ErrorList {
	if strings.Contains(host, "*") {
		return check.Messages(path, host, validation.IsWildcardDNS1123Subdomain(host))
	}
	return check.DNSSubdomain(path, host)
}

func secretName(path *field.Path, name string) field.ErrorList {
	if name == "" {
		return nil
	}
	return check.DNSSubdomain(path, name)
}

func validatePaths(http *networkingv1.HTTPIngressRuleValue, path *field.Path) field.ErrorList {
	if http == nil {
		return nil
	}
	path = path.Child("paths")
	if len(http.Paths) == 0 {
		return field.ErrorList{field.Required(path, "")}
	}
	var errs field.ErrorList
	for i := range http.Paths {
		errs = append(errs, validatePath(&http.Paths[i], path.Index(i))...)
	}
	return errs
}

func validatePath(p *networkingv1.HTTPIngressPath, path *field.Path) field.ErrorList {
	if p.PathType == nil {
		return field.ErrorList{field.Required(path.Child("pathType"), "pathType must be specified")}
	}
	var errs field.ErrorList
	refuse := func(refused bool, message string) {
		if refused {
			errs = append(errs, field.Invalid(path.Child("path"), p.Path, message))
		}
	}
	absolute := strings.HasPrefix(p.Path, "/")
	switch *p.PathType {
	case networkingv1.PathTypeExact, networkingv1.PathTypePrefix:
		refuse(!absolute, "must be an absolute path")
		for _, part := range []string{"//", "/./", "/../", "%2f", "%2F"} {
			refuse(strings.Contains(p.Path, part), "must not contain '"+part+"'")
		}
		for _, end := range []string{"/..", "/."} {
			refuse(strings.HasSuffix(p.Path, end), "cannot end with '"+end+"'")
		}
	case networkingv1.PathTypeImplementationSpecific:
		refuse(p.Path != "" && !absolute, "must be an absolute path")
	default:
		errs = append(errs, check.OneOf(path.Child("pathType"), *p.PathType,
			networkingv1.PathTypeExact, networkingv1.PathTypeImplementationSpecific, networkingv1.PathTypePrefix)...)
	}
	return append(errs, validateBackend(&p.Backend, path.Child("backend"))...)
}

func validateBackend(b *networkingv1.IngressBackend, path *field.Path) field.ErrorList {
	switch {
	case b.Resource != nil && b.Service != nil:
		return field.ErrorList{field.Invalid(path, "", "cannot set both resource and service backends")}
	case b.Resource != nil:
		path := path.Child("resource")
		errs := apiGroup(path.Child("apiGroup"), b.Resource.APIGroup)
		errs = append(errs, requiredSegment(path.Child("kind"), b.Resource.Kind)...)
		return append(errs, requiredSegment(path.Child("name"), b.Resource.Name)...)
	case b.Service == nil:
		return field.ErrorList{field.Invalid(path, "", "resource or service backend is required")}
	}
	var errs field.ErrorList
	if b.Service.Name == "" {
		errs = append(errs, field.Required(path.Child("service", "name"), ""))
	} else {
		errs = append(errs, check.Messages(path.Child("service", "name"), b.Service.Name, apivalidation.NameIsDNSLabel(b.Service.Name, false))...)
	}
	switch port := b.Service.Port; {
	case port.Name != "" && port.Number != 0:
		errs = append(errs, field.Invalid(path, "", "cannot set both port name & port number"))
	case port.Name != "":
		errs = append(errs, check.Messages(path.Child("service", "port", "name"), port.Name, validation.IsValidPortName(port.Name))...)
	case port.Number != 0:
		errs = append(errs, check.PortNumber(path.Child("service", "port", "number"), port.Number)...)
	default:
		errs = append(errs, field.Required(path, "port name or number is required"))
	}
	return errs
}

func apiGroup(path *field.Path, group *string) field.ErrorList {
	if group == nil {
		return nil
	}
	return check.DNSSubdomain(path, *group)
}

func requiredSegment(path *field.Path, value string) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	return pathSegment(path, value)
}

func validateIngressStatus(in, old *networkingv1.Ingress) field.ErrorList {
	var before []string
	for _, point := range old.Status.LoadBalancer.Ingress {
		if point.IP != "" {
			before = append(before, point.IP)
		}
	}
	var errs field.ErrorList
	for i, point := range in.Status.LoadBalancer.Ingress {
		path := field.NewPath("status", "loadBalancer", "ingress").Index(i)
		if point.IP != "" {
			errs = append(errs, check.IP(path.Child("ip"), point.IP, before)...)
		}
		if point.Hostname == "" {
			continue
		}
		errs = append(errs, check.DNSSubdomain(path.Child("hostname"), point.Hostname)...)
		if netutils.ParseIPSloppy(point.Hostname) != nil {
			errs = append(errs, field.Invalid(path.Child("hostname"), point.Hostname, "must be a DNS name, not an IP address"))
		}
	}
	return errs
}
