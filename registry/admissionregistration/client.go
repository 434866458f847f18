package admissionregistration

import (
	"fmt"
	"net/url"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validateClient(c *admissionv1.WebhookClientConfig, path *field.Path) field.ErrorList {
	switch {
	case (c.URL == nil) == (c.Service == nil):
		return field.ErrorList{field.Required(path, "exactly one of url or service is required")}
	case c.URL != nil:
		return validateURL(*c.URL, path.Child("url"))
	}
	return validateService(c.Service, path.Child("service"))
}

func validateURL(text string, path *field.Path) field.ErrorList {
	const form = "; desired format: https://host[/path]"
	u, err := url.Parse(text)
	if err != nil {
		return field.ErrorList{field.Required(path, "url must be a valid URL: "+err.Error()+form)}
	}
	var errs field.ErrorList
	refuse := func(is bool, value, message string) {
		if is {
			errs = append(errs, field.Invalid(path, value, message))
		}
	}
	refuse(u.Scheme != "https", u.Scheme, "'https' is the only allowed URL scheme"+form)
	refuse(u.Host == "", u.Host, "host must be specified"+form)
	if u.User != nil {
		refuse(true, u.User.String(), "user information is not permitted in the URL")
	}
	refuse(u.Fragment != "", u.Fragment, "fragments are not permitted in the URL")
	refuse(u.RawQuery != "", u.RawQuery, "query parameters are not permitted in the URL")
	return errs
}

func validateService(s *admissionv1.ServiceReference, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	// Upstream mixes up name and namespace in these two errors.
	if s.Namespace == "" {
		errs = append(errs, field.Required(path.Child("name"), ""))
	}
	if s.Name == "" {
		errs = append(errs, field.Required(path.Child("namespace"), ""))
	}
	port := int32(0)
	if s.Port != nil {
		port = *s.Port
	}
	if messages := validation.IsValidPortNum(int(port)); messages != nil {
		errs = append(errs, field.Invalid(path.Child("port"), port, "port is not valid: "+strings.Join(messages, ", ")))
	}
	if s.Path == nil {
		return errs
	}
	return append(errs, validatePath(*s.Path, path.Child("path"))...)
}

// validatePath requires segments that are DNS subdomains.
func validatePath(value string, path *field.Path) field.ErrorList {
	if value == "" || value == "/" {
		return nil
	}
	var errs field.ErrorList
	if value[0] != '/' {
		errs = append(errs, field.Invalid(path, value, "must start with a '/'"))
	}
	for i, segment := range strings.Split(strings.TrimSuffix(value[1:], "/"), "/") {
		if segment == "" {
			errs = append(errs, field.Invalid(path, value, fmt.Sprintf("segment[%d] may not be empty", i)))
			continue
		}
		for _, message := range validation.IsDNS1123Subdomain(segment) {
			errs = append(errs, field.Invalid(path, value, fmt.Sprintf("segment[%d]: %v", i, message)))
		}
	}
	return errs
}
