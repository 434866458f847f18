package authn

// ServiceAccountIdentity returns the identity of a service account.
func ServiceAccountIdentity(namespace, name string) *Identity {
	return &Identity{
		Name:   "system:serviceaccount:" + namespace + ":" + name,
		Groups: []string{GroupServiceAccounts, GroupServiceAccounts + ":" + namespace, GroupAuthenticated},
	}
}

// NodeIdentity returns the identity of a node's kubelet.
func NodeIdentity(node string) *Identity {
	return &Identity{Name: "system:node:" + node, Groups: []string{GroupNodes, GroupAuthenticated}}
}
