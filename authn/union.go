package authn

import (
	"errors"
	"net/http"
	"slices"
)

// Union returns an Authenticator that asks each of auths in turn and returns the first success.
// A failure does not stop it: when nobody succeeds, it fails with every failure joined, each text
// once, or with ErrNoCredentials when all abstained.
func Union(auths ...Authenticator) Authenticator {
	if len(auths) == 1 {
		return auths[0]
	}
	auths = slices.Clone(auths)
	return Func(func(r *http.Request) (*Identity, error) {
		var failures []error
		for _, auth := range auths {
			id, err := auth.Authenticate(r)
			switch {
			case err == nil && id != nil:
				return id, nil
			case err != nil && !errors.Is(err, ErrNoCredentials) && !said(failures, err):
				failures = append(failures, err)
			}
		}
		if len(failures) == 0 {
			return nil, ErrNoCredentials
		}
		return nil, errors.Join(failures...)
	})
}

// said tells whether a failure was told before: two authenticators may refuse the same token in the
// same words.
func said(failures []error, err error) bool {
	return slices.ContainsFunc(failures, func(f error) bool { return f.Error() == err.Error() })
}

// WithGroup returns an Authenticator that adds group, usually GroupAuthenticated, to the
// identities auth returns. The anonymous user and members of GroupUnauthenticated get nothing.
func WithGroup(auth Authenticator, group string) Authenticator {
	return Func(func(r *http.Request) (*Identity, error) {
		id, err := auth.Authenticate(r)
		if err != nil || id == nil {
			return id, err
		}
		if id.Name == Anonymous || slices.Contains(id.Groups, GroupUnauthenticated) || slices.Contains(id.Groups, group) {
			return id, nil
		}
		with := *id
		with.Groups = append(slices.Clone(id.Groups), group)
		return &with, nil
	})
}

// AnonymousFallback returns an Authenticator that answers as auth does, except that a request
// without credentials is the anonymous user's. Bad credentials stay an error: a client that
// shows some wants to know that they do not work.
func AnonymousFallback(auth Authenticator) Authenticator {
	return Func(func(r *http.Request) (*Identity, error) {
		id, err := auth.Authenticate(r)
		if errors.Is(err, ErrNoCredentials) {
			return AnonymousIdentity(), nil
		}
		return id, err
	})
}

// AnonymousIdentity is who makes a request that carries no credentials.
func AnonymousIdentity() *Identity {
	return &Identity{Name: Anonymous, Groups: []string{GroupUnauthenticated}}
}
