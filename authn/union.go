package authn

import (
	"errors"
	"net/http"
	"slices"
)

// Union returns an Authenticator that tries each of auths in turn and returns the first success. A failure does not
// stop it: if none succeeds, it fails with every failure joined, each text once, or with ErrNoCredentials if none found
// credentials.
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

// said reports whether a failure is a repetition: two authenticators may refuse the same token with the same text.
func said(failures []error, err error) bool {
	return slices.ContainsFunc(failures, func(f error) bool { return f.Error() == err.Error() })
}

// WithGroup returns an Authenticator that adds group, usually GroupAuthenticated, to the identities of auth, except to
// the anonymous user and members of GroupUnauthenticated.
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

// AnonymousFallback returns an Authenticator like auth, except that a request without credentials is the anonymous
// user's. Bad credentials stay an error, so that the client learns that they do not work.
func AnonymousFallback(auth Authenticator) Authenticator { return Fallback(auth, AnonymousAt()) }

// Fallback returns an Authenticator like auth, except that last identifies requests without credentials. Bad credentials
// stay an error.
func Fallback(auth, last Authenticator) Authenticator {
	return Func(func(r *http.Request) (*Identity, error) {
		id, err := auth.Authenticate(r)
		if errors.Is(err, ErrNoCredentials) {
			return last.Authenticate(r)
		}
		return id, err
	})
}

// AnonymousAt returns an Authenticator for which requests for one of the paths are the anonymous user's. Without paths
// all requests are. A path must be exactly the request's.
func AnonymousAt(paths ...string) Authenticator {
	paths = slices.Clone(paths)
	return Func(func(r *http.Request) (*Identity, error) {
		if len(paths) > 0 && (r.URL == nil || !slices.Contains(paths, r.URL.Path)) {
			return nil, ErrNoCredentials
		}
		return AnonymousIdentity(), nil
	})
}

// Nobody is an Authenticator that finds no credentials in any request: with Fallback, there are no anonymous requests.
func Nobody() Authenticator {
	return Func(func(*http.Request) (*Identity, error) { return nil, ErrNoCredentials })
}

// AnonymousIdentity is the user of a request without credentials.
func AnonymousIdentity() *Identity {
	return &Identity{Name: Anonymous, Groups: []string{GroupUnauthenticated}}
}
