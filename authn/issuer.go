package authn

import (
	"context"
	"time"
)

// Issuer makes the tokens by which service accounts authenticate. Implementations are safe for
// concurrent use.
type Issuer interface {
	// Issue returns a signed token that says c. It fails when c contradicts itself or there is
	// nothing to sign with; its error does not contain the token.
	Issue(ctx context.Context, c Claims) (token string, err error)
}

// Claims are what a token of a service account says (KEP-1205).
type Claims struct {
	// ID is the token's own; the Issuer fills an empty one.
	ID             string
	Namespace      string
	ServiceAccount Ref
	// Pod, Secret or Node is the object that the token ends with, if any. With a Pod, Node is
	// the one that it runs on, which the token only tells.
	Pod    *Ref
	Secret *Ref
	Node   *Ref
	// Audiences are whom the token is meant for.
	Audiences []string
	IssuedAt  time.Time
	Expires   time.Time
	// WarnAfter, if not zero, is when the holder should have had a newer token.
	WarnAfter time.Time
}

// Ref is an object during one of its lives: another one of the same name has another UID.
type Ref struct {
	Name string
	UID  string
}
