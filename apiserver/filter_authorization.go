package apiserver

import (
	"log/slog"
	"net/http"

	"github.com/keelson-dev/keelson/authz"
)

// authorizationFilter asks the authorizer about a request.
type authorizationFilter struct {
	authorizer authz.Authorizer
	log        *slog.Logger
}

// authorize returns whether the request may go on. If not, it has answered.
func (f *authorizationFilter) authorize(x *exchange, r *http.Request) bool {
	began := x.observed.now()
	a := x.attributes(r)
	decision, err := f.authorizer.Authorize(r.Context(), a)
	x.observed.authorized(decision.Verdict, err, began)
	switch {
	case decision.Verdict == authz.Allow:
		x.audit.authorized("allow", decision, a)
		return true
	case err != nil:
		x.audit.authorized("", authz.Decision{Reason: "internal error"}, a)
		f.log.Info("authorization failed", "user", x.user.Name, "audit-id", x.shortID(), "error", err)
		internalError(x, r, err)
		return false
	}
	x.audit.authorized("forbid", decision, a)
	x.reject(r, forbidden(a, decision.Why(a)))
	return false
}
