package main

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
)

// request reads VERB RESOURCE [NAME].
func request(namespace string, words []string) (authz.Attributes, error) {
	a := authz.Attributes{Verb: words[0], Namespace: namespace, ResourceRequest: true}
	resource := words[1]
	if len(words) > 2 {
		a.Name = words[2]
	}
	if strings.HasPrefix(resource, "/") {
		if a.Name != "" || namespace != "" {
			return a, fmt.Errorf("%s is a path, which has neither a name nor a namespace", resource)
		}
		return authz.Attributes{Verb: a.Verb, Path: resource}, nil
	}
	resource, a.Subresource, _ = strings.Cut(resource, "/")
	var named bool
	if a.Resource, a.Group, named = strings.Cut(resource, "."); named {
		// RESOURCE.GROUP/SUBRESOURCE is what kubectl shows, RESOURCE/SUBRESOURCE.GROUP what some write.
		return a, nil
	}
	if sub, group, ok := strings.Cut(a.Subresource, "."); ok {
		a.Subresource, a.Group = sub, group
		return a, nil
	}
	var err error
	a.Group, err = groupOf(a.Resource)
	return a, err
}

// groupOf is the API group of a resource of Kubernetes.
func groupOf(resource string) (string, error) {
	switch resource {
	case "*":
		return "*", nil
	case "users", "groups": // whom to impersonate
		return "", nil
	}
	var groups []string
	for gvk := range scheme.Scheme.AllKnownTypes() {
		plural, _ := meta.UnsafeGuessKindToResource(gvk)
		if plural.Resource == resource && gvk.Group != "extensions" && !slices.Contains(groups, gvk.Group) { // which servers no longer have
			groups = append(groups, gvk.Group)
		}
	}
	slices.Sort(groups)
	switch {
	case len(groups) == 0:
		return "", fmt.Errorf("%s is no resource of Kubernetes: write it in the plural, and one that is defined by others as RESOURCE.GROUP", resource)
	case len(groups) > 1 && groups[0] != "": // the core group goes before others, as for kubectl
		return "", fmt.Errorf("%s is a resource of several groups: write %[1]s.%s", resource, strings.Join(groups, " or "+resource+"."))
	}
	return groups[0], nil
}

// identity is a user by name, with the groups that authenticators add.
func identity(name string, groups []string) *authn.Identity {
	id := &authn.Identity{Name: name, Groups: []string{authn.GroupAuthenticated}}
	if node, ok := strings.CutPrefix(name, "system:node:"); ok {
		id = authn.NodeIdentity(node)
	}
	if account, ok := strings.CutPrefix(name, "system:serviceaccount:"); ok {
		if namespace, own, ok := strings.Cut(account, ":"); ok {
			id = authn.ServiceAccountIdentity(namespace, own)
		}
	}
	if name == authn.Anonymous {
		id = authn.AnonymousIdentity()
	}
	id.Groups = append(slices.Clone(groups), id.Groups...)
	return id
}
