// Package authorization has the kinds of the API group authorization.k8s.io, which are not
// stored but answered: SubjectAccessReview and its local and self forms say whether somebody
// may do something, SelfSubjectRulesReview what the asker may do. Their rules are those of
// Kubernetes 1.37, in its words. A Kind is safe for concurrent use.
package authorization
