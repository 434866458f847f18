package aggregator

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httputil"

	"k8s.io/client-go/transport"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/internal/upgrade"
)

// forward lets the APIService's server answer a request.
func (a *Aggregator) forward(w http.ResponseWriter, r *http.Request, s *apiregistrationv1.APIService) {
	if !available(s) {
		http.Error(w, "service unavailable", http.StatusServiceUnavailable)
		return
	}
	user := authn.FromContext(r.Context())
	if user == nil {
		http.Error(w, "missing user", http.StatusInternalServerError)
		return
	}
	t, address, err := a.reach(r.Context(), s, upgrade.Wanted(r))
	var gone *unreachable
	switch {
	case errors.As(err, &gone):
		a.options.Logger.Warn("service not found", "apiservice", s.Name, "error", err)
		http.Error(w, "service unavailable", http.StatusServiceUnavailable)
		return
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host = "https", address
			p.Out.Header["X-Forwarded-For"] = p.In.Header["X-Forwarded-For"]
			p.SetXForwarded()
			p.Out.Header.Set("X-Forwarded-Uri", p.In.URL.Path)
			identify(p.Out, user)
		},
		Transport: t, FlushInterval: -1,
		ErrorLog: slog.NewLogLogger(a.options.Logger.Handler(), slog.LevelDebug),
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, "error trying to reach service: "+err.Error(), http.StatusServiceUnavailable)
		},
	}
	proxy.ServeHTTP(w, r)
}

// identify says in a request's headers whose it is.
func identify(r *http.Request, user *authn.Identity) {
	r.Header.Del("Authorization")
	transport.SetAuthProxyHeaders(r, user.Name, user.UID, user.Groups, user.Extra)
}
