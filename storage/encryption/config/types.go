package config

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// configuration is apiserver.config.k8s.io/v1, EncryptionConfiguration.
type configuration struct {
	metav1.TypeMeta `json:",inline"`
	Resources       []rule `json:"resources"`
}

// DeepCopyObject makes it a runtime.Object.
func (c *configuration) DeepCopyObject() runtime.Object {
	out := *c
	out.Resources = slices.Clone(c.Resources) // nobody changes what is below
	return &out
}

type rule struct {
	Resources []string   `json:"resources"`
	Providers []provider `json:"providers"`
}

type provider struct {
	AESGCM    *keyed       `json:"aesgcm,omitempty"`
	AESCBC    *keyed       `json:"aescbc,omitempty"`
	Secretbox *keyed       `json:"secretbox,omitempty"`
	Identity  *struct{}    `json:"identity,omitempty"`
	KMS       *kmsProvider `json:"kms,omitempty"`
}

// kinds names what a provider is, which should be one thing.
func (p provider) kinds() []string {
	var kinds []string
	for _, k := range []struct {
		name string
		is   bool
	}{
		{"KMS", p.KMS != nil}, {"AESGCM", p.AESGCM != nil}, {"AESCBC", p.AESCBC != nil},
		{"Secretbox", p.Secretbox != nil}, {"Identity", p.Identity != nil},
	} {
		if k.is {
			kinds = append(kinds, k.name)
		}
	}
	return kinds
}

type keyed struct {
	Keys []key `json:"keys"`
}

type key struct {
	Name   string `json:"name"`
	Secret string `json:"secret"`
}

// String tells no secret.
func (k key) String() string { return fmt.Sprintf("Name: %s, Secret: [REDACTED]", k.Name) }

// GoString tells no secret.
func (k key) GoString() string { return k.String() }

type kmsProvider struct {
	APIVersion string           `json:"apiVersion"`
	Name       string           `json:"name"`
	CacheSize  *int32           `json:"cachesize,omitempty"`
	Endpoint   string           `json:"endpoint"`
	Timeout    *metav1.Duration `json:"timeout,omitempty"`
}

// resource is a resource of a group; either may be "*".
type resource struct{ group, name string }

// parseResource reads "name.group" or "name".
func parseResource(s string) resource {
	name, group, _ := strings.Cut(s, ".")
	return resource{group: group, name: name}
}

func (r resource) String() string {
	switch {
	case r.group != "":
		return r.name + "." + r.group
	case r.name == "*":
		return "*."
	}
	return r.name
}
