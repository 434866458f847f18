// Package rbac decides by roles and their bindings (rbac.authorization.k8s.io/v1).
//
// An Authorizer reads Sources, which informers of the four kinds implement, and which Policy.Sources makes from plain
// objects. A decision considers only the bindings of the user, its groups and its service account, found through an
// index, and the rules about the requested resource. Its reasons are upstream's to the letter.
//
// It also lists what a user may do (RulesFor), why a request is or is not allowed (Explain), who may do something
// (WhoCan), and whether a write of a role or binding would grant more than the writer has (Escalation). The package
// bootstrap below holds the default policy.
//
// Missing roles are *NotFoundError. Everything here is safe for concurrent use.
package rbac
