// Package signername has the rules for what is about signers of certificates: their names, the names of their trust
// bundles and the annotations that users give them. Pods, requests for certificates and trust bundles share them.
//
// Everything here is a pure function of its arguments; mistakes are returned as field errors or messages.
package signername

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Validate validates a signer's name such as example.com/ca: a domain, a slash, a dotted path.
func Validate(p *field.Path, name string) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(p, "")}
	}
	domain, path, ok := strings.Cut(name, "/")
	if !ok || strings.Contains(path, "/") {
		return field.ErrorList{field.Invalid(p, name, "must be a fully qualified domain and path of the form 'example.com/signer-name'")}
	}
	const longestDomain = validation.DNS1123SubdomainMaxLength
	var errs field.ErrorList
	if len(domain) > longestDomain {
		errs = append(errs, field.TooLong(p, "", longestDomain))
	}
	errs = append(errs, part(p, domain, validation.IsDNS1123Label)...)
	if !strings.Contains(domain, ".") {
		errs = append(errs, field.Invalid(p, domain, "should be a domain with at least two segments separated by dots"))
	}
	errs = append(errs, part(p, path, validation.IsDNS1123Subdomain)...)
	const longest = longestDomain + 1 + validation.DNS1123LabelMaxLength + 1 + validation.DNS1123SubdomainMaxLength
	if len(name) > longest {
		errs = append(errs, field.TooLong(p, "", longest))
	}
	return errs
}

// part returns the errors of the first invalid label of a dotted name.
func part(p *field.Path, dotted string, check func(string) []string) field.ErrorList {
	for label := range strings.SplitSeq(dotted, ".") {
		var errs field.ErrorList
		for _, msg := range check(label) {
			errs = append(errs, field.Invalid(p, dotted, fmt.Sprintf("validating label %q: %s", label, msg)))
		}
		if len(errs) > 0 {
			return errs
		}
	}
	return nil
}

// Kubernetes reports whether a signer is one of Kubernetes' own, which sign for a day at most.
func Kubernetes(name string) bool {
	host, _, _ := strings.Cut(name, "/")
	return strings.HasSuffix("."+host, ".kubernetes.io")
}

// TrustBundle returns the messages about the name of a ClusterTrustBundle of a signer, or of none: that of a signer starts
// with the signer's name, with colons for slashes.
func TrustBundle(signer, name string, prefix bool) []string {
	if signer == "" {
		if strings.Contains(name, ":") {
			return []string{`ClusterTrustBundle without signer name must not have ":" in its name`}
		}
		return apivalidation.NameIsDNSSubdomain(name, prefix)
	}
	start := strings.ReplaceAll(signer, "/", ":") + ":"
	rest, ok := strings.CutPrefix(name, start)
	if !ok {
		return []string{fmt.Sprintf("ClusterTrustBundle for signerName %s must be named with prefix %s", signer, start)}
	}
	return apivalidation.NameIsDNSSubdomain(rest, prefix)
}

// Annotations validates what users tell a signer: keys with a domain, as many as annotations may be.
func Annotations(p *field.Path, a map[string]string) field.ErrorList {
	var errs field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(a)) {
		errs = append(errs, validation.IsDomainPrefixedKey(p, strings.ToLower(key))...)
	}
	if err := apivalidation.ValidateAnnotationsSize(a); err != nil {
		errs = append(errs, field.TooLong(p, "", apivalidation.TotalAnnotationSizeLimitB))
	}
	return errs
}
