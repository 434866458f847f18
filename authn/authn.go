package authn

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
)

// ErrNoCredentials means that the request has no credentials of the authenticator's kind. Any other error means that it
// has some and they are bad.
var ErrNoCredentials = errors.New("no credentials")

// Well-known names and groups of upstream.
const (
	Anonymous            = "system:anonymous"
	GroupAuthenticated   = "system:authenticated"
	GroupUnauthenticated = "system:unauthenticated"
	GroupMasters         = "system:masters"
	GroupNodes           = "system:nodes"
	GroupServiceAccounts = "system:serviceaccounts"
)

// CredentialID is the key in Identity.Extra that distinguishes the credentials used from others of the same identity,
// in audit logs: "JTI=..." or "X509SHA256=...".
const CredentialID = "authentication.kubernetes.io/credential-id"

// Identity is the user who makes a request. It is immutable once returned by an Authenticator.
type Identity struct {
	Name   string
	UID    string
	Groups []string            // names of groups
	Extra  map[string][]string // further attributes by name
	// Audiences are those of the requested audiences that the credentials name; empty for credentials without
	// audiences. See WithAudiences.
	Audiences []string
}

// Node returns the name of the node that an identity belongs to, and whether it is a node: a user system:node:NAME in
// the group system:nodes. The name may be empty, for a node that does not give one.
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

// Authenticator identifies the user who makes a request. Implementations are safe for concurrent use and do not change
// the request.
type Authenticator interface {
	// Authenticate returns the identity, ErrNoCredentials if the request has no credentials of this authenticator's
	// kind, or another error if they are bad.
	Authenticate(r *http.Request) (*Identity, error)
}

// Func adapts a function to Authenticator.
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
