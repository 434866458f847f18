package certificates

import (
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/registry"
)

// Kinds returns the kinds of the group in discovery order. The authorizer, usually the API server's own, decides who may sign
// requests of pods: verb sign on the signer. nil lets whoever may write their status.
func Kinds(authorizer authz.Authorizer) []registry.Kind {
	return []registry.Kind{signingRequests(), trustBundles(), podRequests(authorizer)}
}
