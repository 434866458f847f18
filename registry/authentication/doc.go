// Package authentication has the kinds of the API group authentication.k8s.io, which are answered, not stored:
// TokenReview identifies the owner of a token, SelfSubjectReview the caller. Their rules and messages are those
// of Kubernetes 1.37. A Kind is safe for concurrent use.
package authentication
