// Package authenticationconfig reads upstream's AuthenticationConfiguration, the file of kube-apiserver's --authentication-config,
// and authenticates the users of a cluster by it: with tokens of OpenID Connect issuers, and without credentials.
//
//	apiVersion: apiserver.config.k8s.io/v1
//	kind: AuthenticationConfiguration
//	jwt:
//	- issuer: {url: https://login.example.com, audiences: [kubernetes]}
//	  claimMappings:
//	    username: {expression: '"oidc:" + claims.sub'}
//	    groups: {claim: groups, prefix: "oidc:"}
//	anonymous:
//	  enabled: true
//	  conditions: [{path: /livez}, {path: /readyz}, {path: /healthz}]
//
// The file is read again when it changes. New issuers take the place of the old ones when all of them have told their keys; they
// have a minute for that. What is wrong with the file is logged and counted, and what it said before stays in force. What it says
// of anonymous requests must not change.
//
// # Errors
//
// Every error of Open is an *Error, or several joined, which names file, line and field as far as they are known, in upstream's words.
// A field that is not known is an error.
package authenticationconfig
