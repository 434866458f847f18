package resource

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/registry/internal/check"
)

// Origins of errors, by which upstream finds the declaration that replaces a rule.
const (
	shortName      = "format=k8s-short-name"
	longName       = "format=k8s-long-name"
	caselessName   = "format=k8s-long-name-caseless"
	poolName       = "format=k8s-resource-pool-name"
	qualifiedName  = "format=k8s-resource-fully-qualified-name"
	uuidFormat     = "format=k8s-uuid"
	maxNameOfPool  = validation.DNS1123SubdomainMaxLength
	maxDriverBytes = resourcev1.DriverNameMaxLength
)

// validateDriver requires the name of a driver, which is a DNS name in any case.
func validateDriver(name string, p *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(p, "")}
	}
	var errs field.ErrorList
	if len(name) > maxDriverBytes {
		errs = append(errs, field.TooLong(p, "", maxDriverBytes).WithOrigin("maxLength"))
	}
	return append(errs, check.Messages(p, name, validation.IsDNS1123Subdomain(strings.ToLower(name))).WithOrigin(caselessName)...)
}

// declaredDriver is validateDriver for fields of which upstream also has a declaration.
func declaredDriver(name string, p *field.Path) field.ErrorList {
	return validateDriver(name, p).MarkCoveredByDeclarative()
}

// validatePool requires DNS names with slashes between them.
func validatePool(name string, p *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(p, "")}
	}
	var errs field.ErrorList
	if len(name) > maxNameOfPool {
		errs = append(errs, field.TooLong(p, "", maxNameOfPool))
	}
	for part := range strings.SplitSeq(name, "/") {
		errs = append(errs, check.DNSSubdomain(p, part)...)
	}
	return errs.WithOrigin(poolName)
}

// validateLabel requires a DNS label, as names of devices, requests and counters are.
func validateLabel(name string, p *field.Path) field.ErrorList {
	return check.DNSLabel(p, name).WithOrigin(shortName)
}

// validateClassName requires the name of a class.
func validateClassName(name string, p *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(p, "")}
	}
	return check.DNSSubdomain(p, name).WithOrigin(longName)
}

func validateIdentifier(id string, p *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(id) > resourcev1.DeviceMaxIDLength {
		errs = append(errs, field.TooLong(p, "", resourcev1.DeviceMaxIDLength))
	}
	return append(errs, check.Messages(p, id, content.IsCIdentifier(id))...)
}

// validateQualified requires an identifier, perhaps with a domain. Like upstream, it accepts whatever has more than one slash.
func validateQualified[T ~string](name T, p *field.Path) field.ErrorList {
	parts := strings.Split(string(name), "/")
	switch len(parts) {
	case 1:
		return validateIdentifier(parts[0], p)
	case 2:
		var errs field.ErrorList
		if parts[0] == "" {
			errs = append(errs, field.Invalid(p, "", "the domain must not be empty"))
		} else {
			errs = append(errs, validateDriver(parts[0], p)...)
		}
		if parts[1] == "" {
			return append(errs, field.Invalid(p, "", "the name must not be empty"))
		}
		return append(errs, validateIdentifier(parts[1], p)...)
	}
	return nil
}

// validateFullyQualified requires an identifier with a domain.
func validateFullyQualified(name resourcev1.FullyQualifiedName, p *field.Path) field.ErrorList {
	errs := validateQualified(name, p)
	if !strings.Contains(string(name), "/") {
		errs = append(errs, field.Invalid(p, name, "a fully qualified name must be a domain and a name separated by a slash"))
	}
	return errs.WithOrigin(qualifiedName)
}

// extendedResource reports whether a name is that of a resource outside Kubernetes.
func extendedResource(name string) bool {
	return strings.Contains(name, "/") && !strings.Contains(name, corev1.ResourceDefaultNamespacePrefix) &&
		!strings.HasPrefix(name, corev1.DefaultResourceRequestsPrefix) &&
		len(validation.IsQualifiedName(corev1.DefaultResourceRequestsPrefix+name)) == 0
}

// validateItems validates each item of a list, or nothing but its length if that is more than most; 0 means that there is no limit.
func validateItems[T any](list []T, most int, item func(T, *field.Path) field.ErrorList, p *field.Path) field.ErrorList {
	if most > 0 && len(list) > most {
		return field.ErrorList{field.TooMany(p, len(list), most).WithOrigin("maxItems")}
	}
	var errs field.ErrorList
	for i := range list {
		errs = append(errs, item(list[i], p.Index(i))...)
	}
	return errs
}

// validateSet is validateItems for items of which none may be there twice.
func validateSet[T any, K comparable](list []T, most int, item func(T, *field.Path) field.ErrorList, key func(T) K, p *field.Path) field.ErrorList {
	errs := validateItems(list, most, item, p)
	if most > 0 && len(list) > most {
		return errs
	}
	seen := map[K]bool{}
	for i := range list {
		if k := key(list[i]); seen[k] {
			errs = append(errs, field.Duplicate(p.Index(i), k))
		} else {
			seen[k] = true
		}
	}
	return errs
}

// covered marks the errors about lists themselves, of which upstream also has declarations.
func covered(errs field.ErrorList) field.ErrorList {
	for _, err := range errs {
		if err.Type == field.ErrorTypeTooMany || err.Type == field.ErrorTypeDuplicate {
			_ = err.MarkCoveredByDeclarative() // it returns err
		}
	}
	return errs
}

func itself(s string) string { return s }
