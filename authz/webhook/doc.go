// Package webhook decides by asking an API server for a SubjectAccessReview, as upstream's kubelet
// does (https://kubernetes.io/docs/reference/access-authn-authz/webhook/).
//
// Package remote asks any server by a kubeconfig file, package cel compiles conditions on the requests to be reviewed.
//
// Unlike other authorizers it does not answer from memory alone: answers are cached for a while, and the first request
// of its kind waits for the API server. An error means no opinion, and is not cached. Everything is safe for concurrent
// use.
package webhook
