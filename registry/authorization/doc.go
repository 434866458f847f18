// Package authorization has the kinds of the API group authorization.k8s.io, which are answered, not stored:
// SubjectAccessReview and its local and self forms report whether a user may do something,
// SelfSubjectRulesReview what the caller may do. Their rules and messages are those of Kubernetes 1.37. A Kind
// is safe for concurrent use.
package authorization
