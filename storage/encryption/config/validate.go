package config

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validate tells in upstream's words what is wrong; reload is for files that are read again.
func validate(c *configuration, reload bool) field.ErrorList {
	root := field.NewPath("resources")
	if len(c.Resources) == 0 {
		return field.ErrorList{needed(root, root.String())}
	}
	var all field.ErrorList
	v := validator{reload: reload, names: map[string]bool{}}
	for i, r := range c.Resources {
		at := root.Index(i)
		all = append(all, validateResources(r.Resources, at.Child("resources"))...)
		if len(r.Providers) == 0 {
			p := at.Child("providers")
			all = append(all, needed(p, p.String()))
		}
		for j, p := range r.Providers {
			all = append(all, v.provider(p, at.Child("providers").Index(j))...)
		}
	}
	return all
}

func needed(at *field.Path, what string) *field.Error {
	return field.Required(at, fmt.Sprintf("at least one %s is required", what))
}

func mandatory(at *field.Path, what, of string) *field.Error {
	return field.Required(at, fmt.Sprintf("%s is a mandatory field for a %s", what, of))
}

func validateResources(names []string, at *field.Path) field.ErrorList {
	if len(names) == 0 {
		return field.ErrorList{needed(at, at.String())}
	}
	var all field.ErrorList
	duplicate, overlap := overlaps(names)
	if duplicate {
		all = append(all, field.Invalid(at, names, "the same resource cannot be specified multiple times"))
	}
	if overlap {
		all = append(all, field.Invalid(at, names,
			"using overlapping resources such as 'secrets' and '*.' in the same resource list is not allowed as they will be masked"))
	}
	for i, name := range names {
		if wrong := wrongName(name); wrong != "" {
			all = append(all, field.Invalid(at.Index(i), name, wrong))
		}
	}
	return all
}

// overlaps tells whether a list names a resource twice, or one that a wildcard of the list covers.
func overlaps(names []string) (duplicate, overlap bool) {
	for i, a := range names {
		for _, b := range names[i+1:] {
			switch a, b := parseResource(a), parseResource(b); {
			case a == b:
				duplicate = true
				overlap = overlap || a.name == "*" // upstream tells this one as both
			case a == everything() || b == everything():
				overlap = true
			case a.group == b.group && (a.name == "*" || b.name == "*"):
				overlap = true
			}
		}
	}
	return duplicate, overlap
}

// everything is *.*, which covers what is not covered otherwise.
func everything() resource { return resource{group: "*", name: "*"} }

func wrongName(name string) string {
	r := parseResource(name)
	switch {
	case strings.ToLower(name) != name:
		return "resource name should not contain capital letters"
	case name == "*":
		return "use '*.' to encrypt all the resources from core API group or *.* to encrypt all resources"
	case slices.Contains([]string{"apiserveripinfo", "serviceipallocations", "servicenodeportallocations"}, name):
		return "resources which do not have REST API/s cannot be encrypted"
	case r.group == "events.k8s.io":
		return "'*.events.k8s.io' objects are stored using the 'events' API group in etcd. Use 'events' instead in the config file"
	case r.group == "extensions":
		return "'extensions' group has been removed and cannot be used for encryption"
	case r.group == "*" && r.name != "*":
		return "encrypting the same resource across groups is not supported"
	}
	return ""
}

type validator struct {
	reload bool
	names  map[string]bool // of KMS providers so far
}

func (v *validator) provider(p provider, at *field.Path) field.ErrorList {
	var all field.ErrorList
	switch kinds := p.kinds(); {
	case len(kinds) == 0:
		all = append(all, field.Invalid(at, kinds,
			"provider does not contain any of the expected providers: KMS, AESGCM, AESCBC, Secretbox, Identity"))
	case len(kinds) > 1:
		all = append(all, field.Invalid(at, kinds,
			"more than one provider specified in a single element, should split into different list elements"))
	}
	switch {
	case p.KMS != nil:
		all = append(all, v.kms(p.KMS, at.Child("kms"))...)
		v.names[p.KMS.Name] = true
	case p.AESGCM != nil:
		all = append(all, validateKeys(p.AESGCM.Keys, at.Child("aesgcm", "keys"), 16, 24, 32)...)
	case p.AESCBC != nil:
		all = append(all, validateKeys(p.AESCBC.Keys, at.Child("aescbc", "keys"), 16, 24, 32)...)
	case p.Secretbox != nil:
		all = append(all, validateKeys(p.Secretbox.Keys, at.Child("secretbox", "keys"), 32)...)
	}
	return all
}

func validateKeys(keys []key, at *field.Path, sizes ...int) field.ErrorList {
	if len(keys) == 0 {
		return field.ErrorList{needed(at, "keys")}
	}
	var all field.ErrorList
	for i, k := range keys {
		at := at.Index(i)
		if k.Name == "" {
			all = append(all, mandatory(at.Child("name"), "name", "key"))
		}
		if k.Secret == "" {
			all = append(all, mandatory(at.Child("secret"), "secret", "key"))
			continue
		}
		secret, err := base64.StdEncoding.DecodeString(k.Secret)
		switch {
		case err != nil:
			all = append(all, field.Invalid(at.Child("secret"), "REDACTED", "secrets must be base64 encoded"))
		case !slices.Contains(sizes, len(secret)):
			all = append(all, field.Invalid(at.Child("secret"), "REDACTED",
				fmt.Sprintf("secret is not of the expected length, got %d, expected one of %v", len(secret), sizes)))
		}
	}
	return all
}

func (v *validator) kms(c *kmsProvider, at *field.Path) field.ErrorList {
	var all field.ErrorList
	name := at.Child("name")
	if c.Name == "" {
		all = append(all, mandatory(name, "name", "provider"))
	}
	v1 := c.APIVersion == "v1"
	if !v1 && strings.Contains(c.Name, ":") {
		all = append(all, field.Invalid(name, c.Name, fmt.Sprintf("invalid KMS provider name %s, must not contain ':'", c.Name)))
	}
	if (v.reload || !v1) && v.names[c.Name] {
		all = append(all, field.Invalid(name, c.Name, fmt.Sprintf("duplicate KMS provider name %s, names must be unique", c.Name)))
	}
	if c.Timeout.Duration <= 0 {
		all = append(all, field.Invalid(at.Child("timeout"), c.Timeout, "timeout should be a positive value"))
	}
	all = append(all, validateEndpoint(c.Endpoint, at.Child("endpoint"))...)
	switch size := at.Child("cachesize"); {
	case !v1 && c.CacheSize != nil:
		all = append(all, field.Invalid(size, *c.CacheSize, "cachesize is not supported in v2"))
	case v1 && *c.CacheSize == 0:
		all = append(all, field.Invalid(size, *c.CacheSize, "cachesize should be a positive value, or negative to disable"))
	}
	if !v1 && c.APIVersion != "v2" {
		all = append(all, field.Invalid(at.Child("apiVersion"), c.APIVersion,
			"unsupported apiVersion apiVersion for KMS provider, only v1 and v2 are supported"))
	}
	return all
}

func validateEndpoint(endpoint string, at *field.Path) field.ErrorList {
	if endpoint == "" {
		return field.ErrorList{field.Invalid(at, "", "endpoint is a mandatory field for a kms")}
	}
	u, err := url.Parse(endpoint)
	if err != nil {
		return field.ErrorList{field.Invalid(at, endpoint, fmt.Sprintf("invalid endpoint for kms provider, error: %v", err))}
	}
	if u.Scheme != "unix" {
		return field.ErrorList{field.Invalid(at, endpoint,
			fmt.Sprintf("unsupported scheme %q for KMS provider, only unix is supported", u.Scheme))}
	}
	return nil
}
