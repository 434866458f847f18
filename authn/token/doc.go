// Package token authenticates requests by their bearer token (RFC 6750), as it stands in the
// Authorization header.
//
// New makes an authn.Authenticator from a Verifier, which verifies tokens of one kind. Static is the Verifier of a
// fixed set and Union tries several. A token that no Verifier recognizes is ErrInvalid, and a request without one is
// authn.ErrNoCredentials. Everything here is safe for concurrent use.
package token
