// Package rbac has the kinds of the API group rbac.authorization.k8s.io: Role, RoleBinding, ClusterRole and
// ClusterRoleBinding. Their rules and messages are those of Kubernetes 1.37.
//
// Writes are guarded against privilege escalation by the Escalation that is passed to Kinds: refusals are
// registry.ErrForbidden, bindings of missing roles registry.ErrNotFound. A Kind is data without state, safe for
// concurrent use.
package rbac
