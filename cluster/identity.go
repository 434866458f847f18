package cluster

import "github.com/keelson-dev/keelson/authn"

// Admin is who the rest.Config of Config stands for: a person of the group system:masters.
func Admin() *authn.Identity {
	return &authn.Identity{Name: "kubernetes-admin", Groups: []string{authn.GroupMasters, authn.GroupAuthenticated}}
}

// User is an ordinary person, who may do what RBAC lets them.
func User(name string, groups ...string) *authn.Identity {
	return &authn.Identity{Name: name, Groups: append(groups, authn.GroupAuthenticated)}
}

// systemIdentity is who the API server is when it does something by itself, as upstream's
// loopback client: it creates what has to be there before anybody can be authorized.
func systemIdentity() *authn.Identity {
	return &authn.Identity{Name: "system:apiserver", Groups: []string{authn.GroupMasters, authn.GroupAuthenticated}}
}
