package apiserver

import (
	"log/slog"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/keelson-dev/keelson/authn"
)

// authenticationFilter finds out who makes a request.
type authenticationFilter struct {
	authenticator authn.Authenticator
	log           *slog.Logger
}

func newAuthenticationFilter(o Options) authenticationFilter {
	f := authenticationFilter{o.Authenticator, o.Logger}
	if f.authenticator == nil {
		f.authenticator = authn.Func(func(*http.Request) (*authn.Identity, error) {
			return &authn.Identity{Name: authn.Anonymous, Groups: []string{authn.GroupUnauthenticated}}, nil
		})
	}
	return f
}

// identify sets the request's user. It returns false if there is none, which it has answered.
func (f *authenticationFilter) identify(x *exchange, r *http.Request) bool {
	began := x.observed.now()
	id, err := f.authenticator.Authenticate(r)
	if err == nil && id == nil {
		err = authn.ErrNoCredentials
	}
	x.observed.authenticated(id, err, began)
	if err != nil {
		f.log.Info("request not authenticated", "method", r.Method, "path", r.URL.Path, "audit-id", x.shortID(), "error", err)
		closeConnection(x, r)
		x.audit.reject(x, r, apierrors.NewUnauthorized("Unauthorized"))
		return false
	}
	// Nothing further down needs the credentials, and nothing shall take such headers for the proxy's.
	r.Header.Del("Authorization")
	for name := range r.Header {
		if strings.HasPrefix(name, "X-Remote-") && (name == "X-Remote-User" || name == "X-Remote-Uid" ||
			name == "X-Remote-Group" || strings.HasPrefix(name, "X-Remote-Extra-")) {
			delete(r.Header, name)
		}
	}
	if id.Name == authn.Anonymous || slices.Contains(id.Groups, authn.GroupUnauthenticated) {
		closeConnection(x, r)
	}
	x.user = id
	return true
}

// closeConnection ends an HTTP/2 connection with this request: clients that have not authenticated must not hold on to
// one, since it is easily abused (CVE-2023-44487).
func closeConnection(x *exchange, r *http.Request) {
	if r.ProtoMajor == 2 {
		x.w.Header().Set("Connection", "close")
	}
}
