// Package serviceaccount issues and verifies the tokens of service accounts: signed JSON Web Tokens with an expiry and
// an audience, which end with the pod, secret or node that they are bound to (KEP-1205).
//
// Keys are one signing key and any number of verifying keys, RSA (RS256) or ECDSA (ES256, ES384, ES512), under the key
// IDs that Kubernetes gives them; OpenKey reads or creates a key file. An Issuer signs an authn.Claims, a Verifier is
// the token.Verifier of such tokens, and a Discovery publishes, by OpenID Connect, how others can verify them.
//
// The result of verifying a signature is cached for a while, so that not every request needs it. Everything that
// changes is checked every time: the clock, the requested audiences, and whether the account and the bound object still
// exist. A token fails from the moment its pod is gone.
//
// The tokens that are kept in secrets of type kubernetes.io/service-account-token have no expiry and no audience. A Verifier
// accepts them if Options.Legacy is set: while the secret has the token, and notes when it was used last.
//
// Errors name the cause and never contain the token. Everything here is safe for concurrent use.
package serviceaccount
