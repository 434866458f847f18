package cluster

import "github.com/keelson-dev/keelson/authn"

// Admin returns the identity of Config: a user in the group system:masters.
func Admin() *authn.Identity {
	return &authn.Identity{Name: "kubernetes-admin", Groups: []string{authn.GroupMasters, authn.GroupAuthenticated}}
}

// User returns an ordinary user, with the permissions that RBAC grants.
func User(name string, groups ...string) *authn.Identity {
	return &authn.Identity{Name: name, Groups: append(groups, authn.GroupAuthenticated)}
}

// systemIdentity is the API server's own identity, that of upstream's loopback client: it creates what must exist
// before anybody can be authorized.
func systemIdentity() *authn.Identity {
	return &authn.Identity{Name: "system:apiserver", Groups: []string{authn.GroupMasters, authn.GroupAuthenticated}}
}
