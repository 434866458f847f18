// Package webhook knows tokens by asking an API server for a TokenReview, as upstream's kubelet does
// (https://kubernetes.io/docs/reference/access-authn-authz/kubelet-authn-authz/).
//
// A Verifier keeps answers for a while: a token that was revoked is good for so long. It keeps hashes,
// no tokens. A review that fails is an error, is not kept, and says nothing about the token. Everything is
// safe for concurrent use.
package webhook
