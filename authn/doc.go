// Package authn identifies the users who make requests.
//
// The contract is Authenticator: one method from an HTTP request to an Identity, to the sentinel ErrNoCredentials, or
// to an error that says why the credentials are bad. Union tries several in turn, WithGroup adds a group to
// authenticated users, and AnonymousFallback or Fallback with AnonymousAt accept requests without credentials. A request may require credentials
// for other audiences than the server (WithAudiences). Issuer is the counterpart: it makes tokens for service accounts.
//
// Implementations are in the packages below, named by their kind of credentials: x509, token with tokenfile,
// bootstraptoken, serviceaccount and oidc, basic, inprocess, requestheader for proxies; webhook asks another server about tokens. The suites of authntest check an
// implementation against its contract.
//
// Everything here is safe for concurrent use, and identities are immutable once returned.
package authn
