package authz

import (
	"context"
	"errors"

	"github.com/keelson-dev/keelson/authn"
)

// ErrNoUser: the attributes name no user.
var ErrNoUser = errors.New("no user on request")

// Verdict is the outcome of an authorization.
type Verdict int

// The zero Verdict is NoOpinion: another authorizer may still allow the request.
const (
	NoOpinion Verdict = iota
	Allow
	Deny
)

// Decision is a verdict with a reason, which Why returns.
type Decision struct {
	Verdict Verdict
	// Reason is for people; it may be empty.
	Reason string
	// Reasoner gives the reason if Reason is empty; it may be nil. It is for authorizers that decide faster than they can
	// put the reason into words: hardly anybody asks why a request was allowed.
	Reasoner Reasoner
}

// Reasoner gives the reason of a decision about a. What it reads does not change after the decision.
type Reasoner interface {
	Reason(a Attributes) string
}

// Why returns the reason for a decision about a, or nothing.
func (d Decision) Why(a Attributes) string {
	if d.Reason == "" && d.Reasoner != nil {
		return d.Reasoner.Reason(a)
	}
	return d.Reason
}

// Attributes describe a request: who wants to do what to what. Resource requests fill the resource fields, others
// (discovery, health) only Path.
type Attributes struct {
	User *authn.Identity // who makes the request
	// Verb is get, list, watch, create, update, patch, delete, deletecollection, a special verb
	// such as bind or impersonate, or the lower-case HTTP method of a non-resource request.
	Verb        string
	Group       string
	Version     string
	Resource    string
	Subresource string
	Namespace   string
	Name        string
	// Path is the URL path of a non-resource request; ResourceRequest says which kind this is.
	Path            string
	ResourceRequest bool
	// FieldSelector and LabelSelector are the selectors of a list, watch or deletecollection (KEP-4601), possibly
	// incomplete: terms that could not be parsed are left out.
	FieldSelector []Requirement
	LabelSelector []Requirement
}

// Requirement is one term of a selector.
type Requirement struct {
	Key string // the field or label
	// Operator is "=" or "!=" of fields; of labels also "in", "notin", "exists", "!", "gt", "lt".
	Operator string
	Values   []string
}

// Authorizer decides whether a request is allowed. Implementations are safe for concurrent use and answer from memory:
// they read cluster state through informers, not by requests.
type Authorizer interface {
	// Authorize returns a decision. An error does not imply a verdict: the decision returned with it counts, and the
	// error says what could not be evaluated.
	Authorize(ctx context.Context, a Attributes) (Decision, error)
}

// Func adapts a function to Authorizer.
type Func func(ctx context.Context, a Attributes) (Decision, error)

// Authorize calls f.
func (f Func) Authorize(ctx context.Context, a Attributes) (Decision, error) { return f(ctx, a) }
