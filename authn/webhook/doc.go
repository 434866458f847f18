// Package webhook verifies tokens by asking an API server for a TokenReview, as upstream's kubelet does
// (https://kubernetes.io/docs/reference/access-authn-authz/kubelet-authn-authz/).
//
// Package remote asks any server by a kubeconfig file.
//
// A Verifier caches answers for a while, during which a revoked token stays valid. It stores hashes, not tokens. A
// failed review is an error, is not cached, and says nothing about the token. Everything is safe for concurrent use.
package webhook
