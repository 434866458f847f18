package webhook

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/util/cache"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/token"
)

// ErrReview: the token could not be reviewed.
var ErrReview = errors.New("token review failed")

const (
	keep    = 2 * time.Minute // upstream's kubelet
	timeout = 10 * time.Second
	entries = 4096
	// maxReason bounds how much of a server's message is kept and passed on, in bytes.
	maxReason = 1024
)

// Reviewer asks an API server to review a token.
type Reviewer interface {
	// Review creates the review and returns the server's answer. It must not disclose the review, which contains a
	// token.
	Review(ctx context.Context, review *authenticationv1.TokenReview) (*authenticationv1.TokenReview, error)
}

// ReviewerFunc adapts a function to Reviewer.
type ReviewerFunc func(ctx context.Context, review *authenticationv1.TokenReview) (*authenticationv1.TokenReview, error)

// Review calls f.
func (f ReviewerFunc) Review(ctx context.Context, review *authenticationv1.TokenReview) (*authenticationv1.TokenReview, error) {
	return f(ctx, review)
}

// Options of New. The zero value is like upstream's kubelet.
type Options struct {
	// Audiences are those of which a token must name one; if empty, the API server decides. authn.WithAudiences takes
	// precedence.
	Audiences []string
	// Keep is how long answers are cached; 0 means 2 min, below 0 none are.
	Keep time.Duration
	// Timeout is how long a review may take; 0 means 10 s.
	Timeout time.Duration
}

// New returns a Verifier that asks reviewer. For a token that the API server does not know, it returns
// authn.ErrNoCredentials with the server's message.
func New(reviewer Reviewer, o Options) token.Verifier {
	o.Keep, o.Timeout = cmp.Or(o.Keep, keep), cmp.Or(max(o.Timeout, 0), timeout)
	v := &verifier{reviewer: reviewer, options: o, known: cache.NewLRUExpireCache(entries)}
	v.options.Audiences = slices.Clone(o.Audiences)
	return v
}

type verifier struct {
	reviewer Reviewer
	options  Options
	known    *cache.LRUExpireCache // outcome by hash of token and audiences
}

// outcome is an answer of the API server.
type outcome struct {
	identity *authn.Identity // nil: unknown to the API server
	reason   string
}

func (v *verifier) Verify(ctx context.Context, token string) (*authn.Identity, error) {
	audiences, ok := authn.Audiences(ctx)
	if !ok {
		audiences = v.options.Audiences
	}
	key := sha256.Sum256([]byte(strings.Join(append([]string{token}, audiences...), "\x00")))
	if kept, ok := v.known.Get(key); ok {
		return kept.(outcome).answer()
	}
	ctx, cancel := context.WithTimeout(ctx, v.options.Timeout)
	defer cancel()
	review, err := v.reviewer.Review(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: audiences}})
	switch {
	case err != nil:
		if text := err.Error(); words(text, token) != text {
			return nil, fmt.Errorf("%w: %s", ErrReview, words(text, token)) // and not by unwrapping it either
		}
		return nil, fmt.Errorf("%w: %w", ErrReview, err)
	case review == nil:
		return nil, fmt.Errorf("%w: no answer", ErrReview)
	}
	found := read(review.Status, audiences)
	found.reason = words(found.reason, token)
	if v.options.Keep > 0 {
		v.known.Add(key, found, v.options.Keep)
	}
	return found.answer()
}

// words returns a server's message in a form that may be passed on: truncated, and without the token that was sent to
// it.
func words(text, token string) string {
	if token != "" {
		text = strings.ReplaceAll(text, token, "[token]")
	}
	if len(text) > maxReason {
		text = strings.ToValidUTF8(text[:maxReason], "") + "..."
	}
	return text
}

func (o outcome) answer() (*authn.Identity, error) {
	switch {
	case o.identity != nil:
		return o.identity, nil
	case o.reason != "":
		return nil, fmt.Errorf("%w: %s", authn.ErrNoCredentials, o.reason)
	}
	return nil, authn.ErrNoCredentials
}

// read converts a review's status to an outcome.
func read(s authenticationv1.TokenReviewStatus, audiences []string) outcome {
	if !s.Authenticated {
		return outcome{reason: s.Error}
	}
	if len(audiences) > 0 && !slices.ContainsFunc(s.Audiences, func(a string) bool { return slices.Contains(audiences, a) }) {
		return outcome{reason: "the token is not for these audiences"} // a server that does not support audiences returns none
	}
	id := &authn.Identity{Name: s.User.Username, UID: s.User.UID, Groups: slices.Clone(s.User.Groups), Audiences: slices.Clone(s.Audiences)}
	for name, values := range s.User.Extra {
		if id.Extra == nil {
			id.Extra = map[string][]string{}
		}
		id.Extra[name] = slices.Clone(values)
	}
	return outcome{identity: id}
}
