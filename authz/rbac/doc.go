// Package rbac decides by roles and their bindings (rbac.authorization.k8s.io/v1).
//
// An Authorizer reads Sources, which informers of the four kinds satisfy as they are, and which
// Policy.Sources makes of plain objects. A decision looks only at the bindings of the user, of
// its groups and of its service account, found through an index, and at the rules about the
// resource in question. It answers in upstream's words.
//
// Beyond decisions it says what somebody may do (RulesFor), why somebody may or may not do
// something (Explain), who may do something (WhoCan), and whether a write of a role or binding
// would give away more than the writer has (Escalation). The package bootstrap below holds the
// default policy.
//
// Missing roles are *NotFoundError. Everything here is safe for concurrent use.
package rbac
