package token

import (
	"context"
	"crypto/sha256"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/keelson-dev/keelson/authn"
)

// ErrInvalid: no verifier recognizes the bearer token.
var ErrInvalid = errors.New("invalid bearer token")

// Verifier verifies tokens of one kind. Implementations are safe for concurrent use.
type Verifier interface {
	// Verify returns the identity of a token, authn.ErrNoCredentials if the token is not of this Verifier's kind, or
	// another error if it is and is bad (expired, for example). An error that wraps authn.ErrNoCredentials says why the
	// token is not of this kind. No error contains the token.
	Verify(ctx context.Context, token string) (*authn.Identity, error)
}

// Func adapts a function to Verifier.
type Func func(ctx context.Context, token string) (*authn.Identity, error)

// Verify calls f.
func (f Func) Verify(ctx context.Context, token string) (*authn.Identity, error) {
	return f(ctx, token)
}

// New returns an Authenticator of requests with a token, verified by v.
func New(v Verifier) authn.Authenticator {
	return authn.Func(func(r *http.Request) (*authn.Identity, error) {
		token, ok := FromHeader(r.Header)
		if !ok {
			return nil, authn.ErrNoCredentials
		}
		id, err := v.Verify(r.Context(), token)
		if err == nil && id != nil {
			return id, nil
		}
		switch {
		case err == nil || err == authn.ErrNoCredentials: //nolint:errorlint // the plain sentinel carries no reason
			err = ErrInvalid
		case errors.Is(err, authn.ErrNoCredentials):
			err = unknown{err}
		}
		return nil, err
	})
}

// unknown is ErrInvalid with a Verifier's reason for not recognizing the token.
type unknown struct{ reason error }

func (u unknown) Error() string        { return ErrInvalid.Error() + ": " + u.reason.Error() }
func (u unknown) Is(target error) bool { return target == ErrInvalid }

// FromHeader returns the bearer token in h's Authorization header. As in upstream, the scheme is case-insensitive,
// anything after the token is ignored, and two spaces before the token invalidate it.
func FromHeader(h http.Header) (token string, ok bool) {
	scheme, rest, _ := strings.Cut(strings.TrimSpace(h.Get("Authorization")), " ")
	if !strings.EqualFold(scheme, "bearer") {
		return "", false
	}
	token, _, _ = strings.Cut(rest, " ")
	return token, token != ""
}

// Static returns the Verifier of a fixed set of tokens. It stores only hashes, so that its timing does not reveal how
// much of a guess was right.
func Static(tokens map[string]*authn.Identity) Verifier {
	known := make(map[[sha256.Size]byte]*authn.Identity, len(tokens))
	for token, id := range tokens {
		known[sha256.Sum256([]byte(token))] = clone(id)
	}
	return Func(func(_ context.Context, token string) (*authn.Identity, error) {
		if id, ok := known[sha256.Sum256([]byte(token))]; ok {
			return id, nil
		}
		return nil, authn.ErrNoCredentials
	})
}

// Union returns a Verifier that tries each of verifiers in turn and returns the first success. If none succeeds it
// fails with every failure joined, or with authn.ErrNoCredentials, and the reasons given, if none recognizes the token.
func Union(verifiers ...Verifier) Verifier {
	verifiers = slices.Clone(verifiers)
	return Func(func(ctx context.Context, token string) (*authn.Identity, error) {
		var failures, abstentions []error
		for _, v := range verifiers {
			id, err := v.Verify(ctx, token)
			switch {
			case err == nil && id != nil:
				return id, nil
			case err == nil || err == authn.ErrNoCredentials: //nolint:errorlint // the plain sentinel carries no reason
			case errors.Is(err, authn.ErrNoCredentials):
				abstentions = append(abstentions, err)
			default:
				failures = append(failures, err)
			}
		}
		switch {
		case len(failures) > 0:
			return nil, errors.Join(failures...)
		case len(abstentions) > 0:
			return nil, errors.Join(abstentions...)
		}
		return nil, authn.ErrNoCredentials
	})
}

func clone(id *authn.Identity) *authn.Identity {
	if id == nil {
		return nil
	}
	c := *id
	c.Groups = slices.Clone(id.Groups)
	c.Extra = maps.Clone(id.Extra)
	c.Audiences = slices.Clone(id.Audiences)
	return &c
}
