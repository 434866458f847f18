package authn

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
)

// ErrNoCredentials is the abstention: the request carries nothing this authenticator judges.
// Any other error means that it carries credentials and they are bad.
var ErrNoCredentials = errors.New("no credentials")

// Names and groups that upstream gives meaning to.
const (
	Anonymous            = "system:anonymous"
	GroupAuthenticated   = "system:authenticated"
	GroupUnauthenticated = "system:unauthenticated"
	GroupMasters         = "system:masters"
	GroupNodes           = "system:nodes"
	GroupServiceAccounts = "system:serviceaccounts"
)

// CredentialID is the key in Identity.Extra of what tells the credentials used apart from
// others of the same identity, in audit logs: "JTI=..." or "X509SHA256=...".
const CredentialID = "authentication.kubernetes.io/credential-id"

// Identity is who makes a request. It is immutable once returned by an Authenticator.
type Identity struct {
	Name   string
	UID    string
	Groups []string
	Extra  map[string][]string
	// Audiences are those of the audiences asked for that the credentials name; empty for
	// credentials that name none. See WithAudiences.
	Audiences []string
}

// Node returns the node that an identity is, and whether it is one: a user system:node:NAME in the
// group system:nodes. The name may be empty, for one that does not say which.
func Node(id *Identity) (name string, isNode bool) {
	if id == nil {
		return "", false
	}
	name, isNode = strings.CutPrefix(id.Name, "system:node:")
	if !isNode || !slices.Contains(id.Groups, GroupNodes) {
		return "", false
	}
	return name, true
}

// Authenticator tells who makes a request. Implementations are safe for concurrent use and do
// not change the request.
type Authenticator interface {
	// Authenticate returns the identity, ErrNoCredentials when the request carries no
	// credentials of the kind this authenticator judges, or another error when they are bad.
	Authenticate(r *http.Request) (*Identity, error)
}

// Func is an Authenticator made of a function.
type Func func(r *http.Request) (*Identity, error)

// Authenticate calls f.
func (f Func) Authenticate(r *http.Request) (*Identity, error) { return f(r) }

type contextKey struct{}

// NewContext returns a context that carries id to every later stage.
func NewContext(ctx context.Context, id *Identity) context.Context {
	return context.WithValue(ctx, contextKey{}, id)
}

// FromContext returns the identity that NewContext put there, or nil.
func FromContext(ctx context.Context) *Identity {
	id, _ := ctx.Value(contextKey{}).(*Identity)
	return id
}
