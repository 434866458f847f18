// Package rbac has the kinds of the API group rbac.authorization.k8s.io: Role, RoleBinding,
// ClusterRole and ClusterRoleBinding. Their rules are those of Kubernetes 1.37, in its words.
//
// Writes are guarded against escalation by the Escalation that Kinds is given: refusals are
// registry.ErrForbidden, bindings of roles that do not exist registry.ErrNotFound. A Kind is
// data without state, safe for concurrent use.
package rbac
