package authn

import (
	"context"
	"time"
)

// Issuer makes the tokens by which service accounts authenticate. Implementations are safe for concurrent use.
type Issuer interface {
	// Issue returns a signed token with the claims c. It fails if c contradicts itself or there is no signing key; its
	// error does not contain the token.
	Issue(ctx context.Context, c Claims) (token string, err error)
}

// Claims are the claims of a service account token (KEP-1205).
type Claims struct {
	// ID identifies the token; the Issuer fills an empty one.
	ID             string
	Namespace      string
	ServiceAccount Ref
	// Pod, Secret or Node is the object that the token is bound to, if any: it ends with that. With a Pod, Node is only
	// informational: the node that the pod runs on.
	Pod    *Ref
	Secret *Ref
	Node   *Ref
	// Audiences are the recipients that the token is valid for.
	Audiences []string
	IssuedAt  time.Time
	Expires   time.Time
	// WarnAfter, if not zero, is when the holder should have replaced the token.
	WarnAfter time.Time
}

// Ref is an object with its UID: a new object of the same name has another UID.
type Ref struct {
	Name string
	UID  string
}
