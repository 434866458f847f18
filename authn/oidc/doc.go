// Package oidc verifies JSON Web Tokens of an OpenID Connect issuer, as kube-apiserver does
// (https://kubernetes.io/docs/reference/access-authn-authz/authentication/#openid-connect-tokens).
//
// A Verifier is made from a Config, whose fields are those of a JWTAuthenticator in upstream's AuthenticationConfiguration. Its Run
// asks the issuer where its keys are, again and again until it answers, and fetches them: when a token is signed by a key that is not
// known, at a bounded rate, and once an hour, so that a key that the issuer has withdrawn ends. The last keys stay in force while the
// issuer does not answer. Before the first answer, Check and Verify fail with ErrNotReady.
//
// Claims become the user's name, groups, UID and extra by name or by expressions in CEL, which package cel below compiles; without
// expressions nothing links CEL. A token of another issuer is not recognized: the error is authn.ErrNoCredentials. All other errors
// are refusals in upstream's words. Everything is safe for concurrent use.
package oidc
