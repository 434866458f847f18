// Package webhook decides by asking an API server for a SubjectAccessReview, as upstream's kubelet
// does (https://kubernetes.io/docs/reference/access-authn-authz/webhook/).
//
// Unlike other authorizers it does not answer from memory alone: answers are kept for a while, and
// whoever is asked for the first time waits for the API server. An error is no opinion, and is not
// kept. Everything is safe for concurrent use.
package webhook
