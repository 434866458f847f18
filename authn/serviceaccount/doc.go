// Package serviceaccount issues and verifies the tokens of service accounts: JSON Web Tokens that
// are signed by the server, expire, are meant for an audience and end with the pod, secret or
// node that they are bound to (KEP-1205).
//
// Keys are one key that signs and those that verify, RSA (RS256) or ECDSA (ES256, ES384, ES512),
// under the key IDs that Kubernetes gives them; OpenKey reads or makes the file of one. An Issuer
// signs what an authn.Claims says, a Verifier is the token.Verifier of such tokens, and a Discovery
// tells others, by OpenID Connect, how to verify them on their own.
//
// What a token was signed for is remembered for a while, so that the signature need not be
// verified with every request. Everything that changes is looked at every time: the clock, the
// audiences asked for, and whether the account and the bound object are still there. A token
// fails from the moment its pod is gone.
//
// Errors name the cause and never contain the token. Everything here is safe for concurrent use.
package serviceaccount
