package v1alpha1

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion returns the group and version of the kind.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: "admissionregistration.k8s.io", Version: "v1alpha1"}
}

// Resource returns the resource of the kind.
func Resource() schema.GroupVersionResource {
	return GroupVersion().WithResource("initializerconfigurations")
}

// InitializerConfiguration names the initializers of new objects. Those of all configurations are merged, in the order of
// the configurations' names.
type InitializerConfiguration struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Initializers []Initializer `json:"initializers,omitempty" patchStrategy:"merge" patchMergeKey:"name"`
}

// Initializer is an initializer and the resources whose objects it initializes.
type Initializer struct {
	// Name is the initializer's: at least three labels separated by dots, such as alwayspullimages.kubernetes.io.
	Name string `json:"name"`
	// Rules tell the resources: an object is initialized if any of them matches.
	Rules []Rule `json:"rules,omitempty"`
}

// Rule matches resources by their group, version and name; "*" alone matches all of them.
type Rule struct {
	APIGroups   []string `json:"apiGroups,omitempty"`
	APIVersions []string `json:"apiVersions,omitempty"`
	Resources   []string `json:"resources,omitempty"`
}

// InitializerConfigurationList is a list of configurations.
type InitializerConfigurationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []InitializerConfiguration `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (c *InitializerConfiguration) DeepCopyObject() runtime.Object { return c.DeepCopy() }

// DeepCopy returns a copy.
func (c *InitializerConfiguration) DeepCopy() *InitializerConfiguration {
	out := *c
	out.ObjectMeta = *c.ObjectMeta.DeepCopy()
	out.Initializers = slices.Clone(c.Initializers)
	for i := range out.Initializers {
		rules := slices.Clone(c.Initializers[i].Rules)
		for j, r := range rules {
			rules[j] = Rule{slices.Clone(r.APIGroups), slices.Clone(r.APIVersions), slices.Clone(r.Resources)}
		}
		out.Initializers[i].Rules = rules
	}
	return &out
}

// DeepCopyObject implements runtime.Object.
func (l *InitializerConfigurationList) DeepCopyObject() runtime.Object {
	out := *l
	out.ListMeta = *l.ListMeta.DeepCopy()
	out.Items = slices.Clone(l.Items)
	for i := range out.Items {
		out.Items[i] = *l.Items[i].DeepCopy()
	}
	return &out
}

// Initializers returns the names of the initializers of new objects of a resource, which may be given in several versions.
// The configurations are ordered by name.
func Initializers(all []*InitializerConfiguration, versions ...schema.GroupVersionResource) []string {
	var names []string
	for _, c := range all {
		for _, i := range c.Initializers {
			if slices.ContainsFunc(i.Rules, func(r Rule) bool { return slices.ContainsFunc(versions, r.matches) }) {
				names = append(names, i.Name)
			}
		}
	}
	return names
}

// matches reports whether the rule matches a resource.
func (r Rule) matches(resource schema.GroupVersionResource) bool {
	return has(r.APIGroups, resource.Group) && has(r.APIVersions, resource.Version) && has(r.Resources, resource.Resource)
}

func has(list []string, value string) bool {
	return slices.Contains(list, value) || len(list) > 0 && list[0] == wildcard
}
