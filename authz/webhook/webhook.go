package webhook

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
)

// ErrReview: the request could not be reviewed.
var ErrReview = errors.New("access review failed")

const (
	keepAllowed = 5 * time.Minute // upstream's kubelet
	keepOthers  = 30 * time.Second
	timeout     = 10 * time.Second
	entries     = 8192
	maxKey      = 10000 // bytes: larger requests are not cached, as in upstream
	// maxReason bounds how much of a server's message is kept and passed on, in bytes.
	maxReason = 1024
)

// Reviewer asks an API server whether a request is allowed.
type Reviewer interface {
	// Review creates the review and returns the server's answer.
	Review(ctx context.Context, review *authorizationv1.SubjectAccessReview) (*authorizationv1.SubjectAccessReview, error)
}

// ReviewerFunc adapts a function to Reviewer.
type ReviewerFunc func(ctx context.Context, review *authorizationv1.SubjectAccessReview) (*authorizationv1.SubjectAccessReview, error)

// Review calls f.
func (f ReviewerFunc) Review(ctx context.Context, review *authorizationv1.SubjectAccessReview) (*authorizationv1.SubjectAccessReview, error) {
	return f(ctx, review)
}

// Conditions report whether a request is one that the webhook is asked about. If they cannot be evaluated, Options.OnError decides.
type Conditions func(ctx context.Context, spec *authorizationv1.SubjectAccessReviewSpec) (bool, error)

// Options of New. The zero value is like upstream's kubelet; a negative duration disables a cache.
type Options struct {
	// Match, if set, selects the requests that are reviewed. There is no opinion about others.
	Match Conditions
	// OnError is the verdict on a request that cannot be reviewed: NoOpinion or Deny.
	OnError authz.Verdict
	// Reviewed, if set, is called after each review that was not cached with how long it took and why it failed.
	Reviewed func(took time.Duration, err error)
	// KeepAllowed is how long "allowed" is cached; 0 means 5 min.
	KeepAllowed time.Duration
	// KeepOthers is how long other answers are cached; 0 means 30 s.
	KeepOthers time.Duration
	// Timeout is how long a review may take; 0 means 10 s.
	Timeout time.Duration
}

// New returns an Authorizer that asks reviewer.
func New(reviewer Reviewer, o Options) authz.Authorizer {
	o.KeepAllowed, o.KeepOthers = cmp.Or(o.KeepAllowed, keepAllowed), cmp.Or(o.KeepOthers, keepOthers)
	o.Timeout = cmp.Or(max(o.Timeout, 0), timeout)
	return &authorizer{reviewer, o, cache.NewLRUExpireCache(entries)}
}

// ErrNoRules: a webhook does not tell what users may do.
var ErrNoRules = errors.New("webhook authorizer does not support user rule resolution")

// RulesFor implements authz.RuleResolver: it fails with ErrNoRules.
func (*authorizer) RulesFor(context.Context, *authn.Identity, string) (authz.Rules, error) {
	return authz.Rules{Incomplete: true}, ErrNoRules
}

type authorizer struct {
	reviewer Reviewer
	options  Options
	known    *cache.LRUExpireCache // SubjectAccessReviewStatus by its spec
}

func (z *authorizer) Authorize(ctx context.Context, a authz.Attributes) (authz.Decision, error) {
	if a.User == nil {
		return authz.Decision{}, authz.ErrNoUser
	}
	review := &authorizationv1.SubjectAccessReview{Spec: specOf(a)}
	failed := authz.Decision{Verdict: z.options.OnError}
	if z.options.Match != nil {
		if matches, wrong := z.options.Match(ctx, &review.Spec); wrong != nil {
			return failed, fmt.Errorf("%w: %w", ErrReview, wrong)
		} else if !matches {
			return authz.Decision{}, nil
		}
	}
	key, err := json.Marshal(review.Spec)
	if err != nil {
		return failed, fmt.Errorf("%w: %w", ErrReview, err)
	}
	if kept, ok := z.known.Get(string(key)); ok {
		return decide(kept.(authorizationv1.SubjectAccessReviewStatus))
	}
	ctx, cancel := context.WithTimeout(ctx, z.options.Timeout)
	defer cancel()
	answer, err := z.review(ctx, review)
	if err != nil {
		return failed, err
	}
	status := authorizationv1.SubjectAccessReviewStatus{Allowed: answer.Status.Allowed, Denied: answer.Status.Denied, Reason: words(answer.Status.Reason)}
	keep := z.options.KeepOthers
	if status.Allowed {
		keep = z.options.KeepAllowed
	}
	if keep > 0 && len(key) <= maxKey {
		z.known.Add(string(key), status, keep)
	}
	return decide(status)
}

// review asks the server.
func (z *authorizer) review(ctx context.Context, review *authorizationv1.SubjectAccessReview) (*authorizationv1.SubjectAccessReview, error) {
	began := time.Now()
	answer, err := z.reviewer.Review(ctx, review)
	if err == nil && answer == nil {
		err = errors.New("no answer")
	}
	if z.options.Reviewed != nil {
		z.options.Reviewed(time.Since(began), err)
	}
	if err == nil {
		return answer, nil
	}
	if text := err.Error(); len(text) > maxReason {
		return nil, fmt.Errorf("%w: %s", ErrReview, words(text))
	}
	return nil, fmt.Errorf("%w: %w", ErrReview, err)
}

// words returns the beginning of a server's message.
func words(text string) string {
	if len(text) > maxReason {
		text = strings.ToValidUTF8(text[:maxReason], "") + "..."
	}
	return text
}

func decide(s authorizationv1.SubjectAccessReviewStatus) (authz.Decision, error) {
	switch {
	case s.Denied && s.Allowed:
		return authz.Decision{Verdict: authz.Deny, Reason: s.Reason}, fmt.Errorf("%w: it is both allowed and denied", ErrReview)
	case s.Denied:
		return authz.Decision{Verdict: authz.Deny, Reason: s.Reason}, nil
	case s.Allowed:
		return authz.Decision{Verdict: authz.Allow, Reason: s.Reason}, nil
	}
	return authz.Decision{Reason: s.Reason}, nil
}

// specOf converts attributes to the spec of a review.
func specOf(a authz.Attributes) authorizationv1.SubjectAccessReviewSpec {
	spec := authorizationv1.SubjectAccessReviewSpec{User: a.User.Name, UID: a.User.UID, Groups: slices.Clone(a.User.Groups)}
	for name, values := range a.User.Extra {
		if spec.Extra == nil {
			spec.Extra = map[string]authorizationv1.ExtraValue{}
		}
		spec.Extra[name] = slices.Clone(values)
	}
	if !a.ResourceRequest {
		spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Path: a.Path, Verb: a.Verb}
		return spec
	}
	r := &authorizationv1.ResourceAttributes{
		Namespace: a.Namespace, Verb: a.Verb, Group: a.Group, Version: a.Version, Resource: a.Resource, Subresource: a.Subresource, Name: a.Name,
	}
	if fields := fieldTerms(a.FieldSelector); len(fields) > 0 {
		r.FieldSelector = &authorizationv1.FieldSelectorAttributes{Requirements: fields}
	}
	if labels := labelTerms(a.LabelSelector); len(labels) > 0 {
		r.LabelSelector = &authorizationv1.LabelSelectorAttributes{Requirements: labels}
	}
	spec.ResourceAttributes = r
	return spec
}

// fieldTerms converts terms to those of a review. Terms that a review cannot express are left out: the review then asks
// for more, never for less.
func fieldTerms(terms []authz.Requirement) []metav1.FieldSelectorRequirement {
	operators := map[string]metav1.FieldSelectorOperator{"=": metav1.FieldSelectorOpIn, "!=": metav1.FieldSelectorOpNotIn}
	var all []metav1.FieldSelectorRequirement
	for _, t := range terms {
		if operator, ok := operators[t.Operator]; ok {
			all = append(all, metav1.FieldSelectorRequirement{Key: t.Key, Operator: operator, Values: slices.Clone(t.Values)})
		}
	}
	return all
}

func labelTerms(terms []authz.Requirement) []metav1.LabelSelectorRequirement {
	operators := map[string]metav1.LabelSelectorOperator{
		"=": metav1.LabelSelectorOpIn, "in": metav1.LabelSelectorOpIn, "!=": metav1.LabelSelectorOpNotIn, "notin": metav1.LabelSelectorOpNotIn,
		"exists": metav1.LabelSelectorOpExists, "!": metav1.LabelSelectorOpDoesNotExist,
	}
	var all []metav1.LabelSelectorRequirement
	for _, t := range terms {
		if operator, ok := operators[t.Operator]; ok {
			all = append(all, metav1.LabelSelectorRequirement{Key: t.Key, Operator: operator, Values: slices.Clone(t.Values)})
		}
	}
	return all
}
