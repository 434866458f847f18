package generate

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ResourceMapper finds the resource of a name or a short name. An error says that the server does not serve it. The
// meta.RESTMapper of package discovery implements it.
type ResourceMapper interface {
	ResourceFor(partial schema.GroupVersionResource) (schema.GroupVersionResource, error)
}

// RoleOptions are the flags of kubectl create role.
type RoleOptions struct {
	Verbs         []string // required
	Resources     []string // each "resource[.group][/subresource]"; required
	ResourceNames []string // limit the rule to objects with these names

	Mapper ResourceMapper // knows what the server serves; required
	Warn   func(string)   // called for non-standard verbs; may be nil
}

// Role makes what kubectl create role NAME makes: a rule for each API group.
func Role(name string, o RoleOptions) (*rbacv1.Role, error) {
	if err := checkName("role", name, roleName); err != nil {
		return nil, err
	}
	verbs := normalVerbs(o.Verbs)
	if len(verbs) == 0 {
		return nil, errors.New("at least one verb must be specified")
	}
	o.warn(verbs)
	resources := parseResources(o.Resources)
	if len(resources) == 0 {
		return nil, errors.New("at least one resource must be specified")
	}
	rules, err := o.rules(verbs, resources)
	if err != nil {
		return nil, err
	}
	return &rbacv1.Role{TypeMeta: typeMeta(rbacv1.SchemeGroupVersion, "Role"), ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}, nil
}

// ClusterRoleOptions are the flags of kubectl create clusterrole.
type ClusterRoleOptions struct {
	RoleOptions
	NonResourceURLs []string // such as "/healthz" or "/logs/*"
	// Aggregation is the labels of the cluster roles to aggregate: "key=value,…". It excludes the rest.
	Aggregation string
}

// ClusterRole makes what kubectl create clusterrole NAME makes.
func ClusterRole(name string, o ClusterRoleOptions) (*rbacv1.ClusterRole, error) {
	if err := checkName("clusterrole", name, roleName); err != nil {
		return nil, err
	}
	role := &rbacv1.ClusterRole{TypeMeta: typeMeta(rbacv1.SchemeGroupVersion, "ClusterRole"), ObjectMeta: metav1.ObjectMeta{Name: name}}
	if o.Aggregation != "" {
		labels, err := Labels(o.Aggregation)
		if err != nil {
			return nil, err
		}
		if len(o.NonResourceURLs)+len(o.Verbs)+len(o.Resources)+len(o.ResourceNames) > 0 {
			return nil, errors.New("aggregation rule must be specified without nonResourceURLs, verbs, resources or resourceNames")
		}
		role.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: labels}}}
		return role, nil
	}
	verbs := normalVerbs(o.Verbs)
	resources := parseResources(o.Resources)
	switch {
	case len(verbs) == 0:
		return nil, errors.New("at least one verb must be specified")
	case len(resources) == 0 && len(o.NonResourceURLs) == 0:
		return nil, errors.New("one of resource or nonResourceURL must be specified")
	}
	if len(resources) > 0 {
		o.warn(verbs)
		rules, err := o.rules(verbs, resources)
		if err != nil {
			return nil, err
		}
		role.Rules = rules
	}
	if len(o.NonResourceURLs) > 0 {
		if err := checkURLs(verbs, o.NonResourceURLs); err != nil {
			return nil, err
		}
		role.Rules = append(role.Rules, rbacv1.PolicyRule{Verbs: verbs, NonResourceURLs: unique(o.NonResourceURLs)})
	}
	return role, nil
}

func checkURLs(verbs, urls []string) error {
	for _, v := range verbs {
		if !slices.Contains([]string{"*", "get", "post", "put", "delete", "patch", "head", "options"}, v) {
			return fmt.Errorf("invalid verb: '%s' for nonResourceURL", v)
		}
	}
	for _, url := range urls {
		switch {
		case url == "*":
		case !strings.HasPrefix(url, "/"):
			return errors.New("nonResourceURL should start with /")
		case strings.Contains(url[:len(url)-1], "*"):
			return errors.New("nonResourceURL only supports wildcard matches when '*' is at the end")
		}
	}
	return nil
}

func (o RoleOptions) warn(verbs []string) {
	standard := []string{"*", "get", "delete", "list", "create", "update", "patch", "watch", "proxy", "deletecollection", "use", "bind", "escalate", "impersonate"}
	for _, v := range verbs {
		if o.Warn != nil && !slices.Contains(standard, v) {
			o.Warn(fmt.Sprintf("'%s' is not a standard resource verb", v))
		}
	}
}

// resourceRef is a resource as it was written.
type resourceRef struct {
	schema.GroupVersionResource
	subresource string
}

func parseResources(texts []string) []resourceRef {
	var all []resourceRef
	for _, text := range texts {
		named, sub, hasSub := strings.Cut(text, "/")
		resource, group, hasGroup := strings.Cut(named, ".")
		ref := resourceRef{schema.GroupVersionResource{Group: group, Resource: resource}, sub}
		if resource == "*" && !hasGroup && !hasSub {
			return []resourceRef{ref}
		}
		all = append(all, ref)
	}
	return all
}

// rules are one for each group, with the resources under their full names.
func (o RoleOptions) rules(verbs []string, refs []resourceRef) ([]rbacv1.PolicyRule, error) {
	if err := o.checkServed(verbs, refs); err != nil {
		return nil, err
	}
	byGroup := map[string][]string{}
	for _, ref := range refs {
		gvr := ref.GroupVersionResource
		if found, err := o.Mapper.ResourceFor(gvr); err == nil {
			gvr = found
		}
		if ref.subresource != "" {
			gvr.Resource += "/" + ref.subresource
		}
		if !slices.Contains(byGroup[gvr.Group], gvr.Resource) {
			byGroup[gvr.Group] = append(byGroup[gvr.Group], gvr.Resource)
		}
	}
	var rules []rbacv1.PolicyRule
	for _, group := range slices.Sorted(maps.Keys(byGroup)) {
		rules = append(rules, rbacv1.PolicyRule{
			Verbs: verbs, APIGroups: []string{group}, Resources: byGroup[group], ResourceNames: unique(o.ResourceNames),
		})
	}
	return rules, nil
}

// checkServed refuses resources that the server does not serve, and special verbs on resources they do not apply to.
func (o RoleOptions) checkServed(verbs []string, refs []resourceRef) error {
	if o.Mapper == nil {
		return errors.New("a Mapper is required to know the server's resources")
	}
	for _, ref := range refs {
		switch ref.Resource {
		case "":
			return errors.New("resource must be specified if apiGroup/subresource specified")
		case "*":
			return nil
		}
		gvr := ref.GroupVersionResource
		found, err := o.Mapper.ResourceFor(gvr)
		if err == nil {
			gvr = found
		}
		for _, v := range verbs {
			targets, special := specialVerb(v)
			if !special {
				continue
			}
			if !slices.Contains(targets, gvr.GroupResource()) {
				return fmt.Errorf("can not perform '%s' on '%s' in group '%s'", v, gvr.Resource, gvr.Group)
			}
			err = nil // users and groups are no resources
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// specialVerb lists what the verbs of policy apply to.
func specialVerb(verb string) ([]schema.GroupResource, bool) {
	switch verb {
	case "use":
		return []schema.GroupResource{{Group: "policy", Resource: "podsecuritypolicies"}, {Group: "extensions", Resource: "podsecuritypolicies"}}, true
	case "bind", "escalate":
		return []schema.GroupResource{{Group: rbacv1.GroupName, Resource: "roles"}, {Group: rbacv1.GroupName, Resource: "clusterroles"}}, true
	case "impersonate":
		return []schema.GroupResource{
			{Resource: "users"}, {Resource: "serviceaccounts"}, {Resource: "groups"}, {Group: "authentication.k8s.io", Resource: "userextras"},
		}, true
	}
	return nil, false
}

func normalVerbs(verbs []string) []string {
	if slices.Contains(verbs, "*") {
		return []string{"*"}
	}
	return unique(verbs)
}

// unique drops repetitions.
func unique(texts []string) []string {
	var once []string
	for _, t := range texts {
		if !slices.Contains(once, t) {
			once = append(once, t)
		}
	}
	return once
}

// BindingOptions are the flags of kubectl create rolebinding and clusterrolebinding.
type BindingOptions struct {
	Role, ClusterRole string   // one of them; a ClusterRoleBinding takes a ClusterRole
	Users, Groups     []string // names of subjects
	ServiceAccounts   []string // each "namespace:name"
}

// RoleBinding makes what kubectl create rolebinding NAME makes.
func RoleBinding(name string, o BindingOptions) (*rbacv1.RoleBinding, error) {
	if err := checkName("rolebinding", name, roleName); err != nil {
		return nil, err
	}
	if (o.ClusterRole == "") == (o.Role == "") {
		return nil, errors.New("exactly one of clusterrole or role must be specified")
	}
	subjects, err := o.subjects()
	if err != nil {
		return nil, err
	}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: o.Role}
	if o.ClusterRole != "" {
		ref.Kind, ref.Name = "ClusterRole", o.ClusterRole
	}
	return &rbacv1.RoleBinding{
		TypeMeta:   typeMeta(rbacv1.SchemeGroupVersion, "RoleBinding"),
		ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: ref, Subjects: subjects,
	}, nil
}

// ClusterRoleBinding makes what kubectl create clusterrolebinding NAME makes.
func ClusterRoleBinding(name string, o BindingOptions) (*rbacv1.ClusterRoleBinding, error) {
	if err := checkName("clusterrolebinding", name, roleName); err != nil {
		return nil, err
	}
	if o.ClusterRole == "" || o.Role != "" {
		return nil, errors.New("clusterrole must be specified, and no role")
	}
	subjects, err := o.subjects()
	if err != nil {
		return nil, err
	}
	return &rbacv1.ClusterRoleBinding{
		TypeMeta:   typeMeta(rbacv1.SchemeGroupVersion, "ClusterRoleBinding"),
		ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: o.ClusterRole},
	}, nil
}

func (o BindingOptions) subjects() ([]rbacv1.Subject, error) {
	var all []rbacv1.Subject
	for _, user := range o.Users {
		all = append(all, rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user})
	}
	for _, group := range o.Groups {
		all = append(all, rbacv1.Subject{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: group})
	}
	for _, account := range o.ServiceAccounts {
		parts := strings.Split(account, ":")
		if len(parts) != 2 || parts[0] == "" || parts[1] == "" {
			return nil, errors.New("serviceaccount must be <namespace>:<name>")
		}
		all = append(all, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: parts[0], Name: parts[1]})
	}
	return all, nil
}
