// Package authentication has the kinds of the API group authentication.k8s.io that are not
// stored but answered: TokenReview says whose a token is, SelfSubjectReview who asks. Their
// rules are those of Kubernetes 1.37, in its words. A Kind is safe for concurrent use.
package authentication
