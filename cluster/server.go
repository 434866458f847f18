package cluster

import (
	"maps"
	"net/http"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/apiserver/openapi"
	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/inprocess"
	"github.com/keelson-dev/keelson/authn/serviceaccount"
	"github.com/keelson-dev/keelson/authn/token"
	"github.com/keelson-dev/keelson/registry"
)

// authenticator asks in upstream's order: certificates and other credentials that the user
// chose, then tokens of service accounts, then nobody.
func (c *Cluster) authenticator() authn.Authenticator {
	chain := append([]authn.Authenticator{inprocess.New()}, c.options.Authenticators...)
	chain = append(chain, token.New(c.tokens.verifier))
	return authn.AnonymousFallback(authn.WithGroup(authn.Union(chain...), authn.GroupAuthenticated))
}

// newServer makes the API server with all that it serves beside the API.
func (c *Cluster) newServer(kinds []registry.Kind, chain admission.Chain) (http.Handler, error) {
	discovery, err := serviceaccount.NewDiscovery(tokenIssuer, tokenIssuer+serviceaccount.JWKSPath, c.tokens.keys)
	if err != nil {
		return nil, err
	}
	c.authn = c.authenticator()
	version := serverVersion()
	paths := discovery.Handlers()
	maps.Copy(paths, openapi.New(kinds, openapi.Options{Version: version.GitVersion, Issuer: true, Logger: c.log}).Paths())
	return apiserver.New(c.registry, apiserver.Options{
		Authenticator: c.authn, Authorizer: c.access.Authorizer, Admission: chain, Version: version,
		Audit: c.options.Server.Audit, Paths: paths, Logger: c.log,
	}), nil
}
