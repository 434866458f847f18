package authn

// ServiceAccountIdentity is who the service account of a namespace is.
func ServiceAccountIdentity(namespace, name string) *Identity {
	return &Identity{
		Name:   "system:serviceaccount:" + namespace + ":" + name,
		Groups: []string{GroupServiceAccounts, GroupServiceAccounts + ":" + namespace, GroupAuthenticated},
	}
}

// NodeIdentity is who the kubelet of a node is.
func NodeIdentity(node string) *Identity {
	return &Identity{Name: "system:node:" + node, Groups: []string{GroupNodes, GroupAuthenticated}}
}
