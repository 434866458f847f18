// Package authn tells who makes a request.
//
// The contract is Authenticator: one method from an HTTP request to an Identity, or to the
// sentinel ErrNoCredentials, or to an error that says why the credentials are bad. Union tries
// several in turn, WithGroup adds a group to those who authenticated, AnonymousFallback lets
// those in who did not try to. A request may ask for credentials meant for others than the server
// (WithAudiences). Issuer is the other side: who makes tokens for service accounts.
//
// Implementations live in the packages below, named by what they judge: x509, token with
// tokenfile and serviceaccount, basic, inprocess. The suites of authntest hold an implementation
// to its contract.
//
// Everything here is safe for concurrent use, and identities are immutable once returned.
package authn
