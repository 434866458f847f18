package authz

import (
	"context"
	"errors"

	"github.com/keelson-dev/keelson/authn"
)

// ErrNoUser: the attributes do not say who makes the request.
var ErrNoUser = errors.New("no user on request")

// Verdict is what an Authorizer says of a request.
type Verdict int

// The zero Verdict is NoOpinion: another authorizer may still allow the request.
const (
	NoOpinion Verdict = iota
	Allow
	Deny
)

// Decision is a verdict and, for people, why.
type Decision struct {
	Verdict Verdict
	Reason  string
}

// Attributes say who wants to do what to what. Resource requests fill the resource fields,
// others (discovery, health) only Path.
type Attributes struct {
	User *authn.Identity
	// Verb is get, list, watch, create, update, patch, delete, deletecollection, a special verb
	// such as bind or impersonate, or the lower-case HTTP method of a non-resource request.
	Verb        string
	Group       string
	Version     string
	Resource    string
	Subresource string
	Namespace   string
	Name        string
	// Path is the URL path of a non-resource request; ResourceRequest tells which kind this is.
	Path            string
	ResourceRequest bool
	// FieldSelector and LabelSelector are what a list, watch or deletecollection restricts
	// itself to (KEP-4601): all of it, or less. Terms that could not be parsed are left out.
	FieldSelector []Requirement
	LabelSelector []Requirement
}

// Requirement is one term of a selector.
type Requirement struct {
	Key string
	// Operator is "=" or "!=" of fields; of labels also "in", "notin", "exists", "!", "gt", "lt".
	Operator string
	Values   []string
}

// Authorizer decides whether a request may go on. Implementations are safe for concurrent use
// and answer from memory: they read cluster state through informers, not by requests.
type Authorizer interface {
	// Authorize returns a decision. An error does not imply a verdict: the decision beside it
	// counts, and the error says what could not be evaluated.
	Authorize(ctx context.Context, a Attributes) (Decision, error)
}

// Func is an Authorizer made of a function.
type Func func(ctx context.Context, a Attributes) (Decision, error)

// Authorize calls f.
func (f Func) Authorize(ctx context.Context, a Attributes) (Decision, error) { return f(ctx, a) }
