// Package authz decides who may do what.
//
// The contract is Authorizer: one method from the Attributes of a request to a Decision, which allows, denies or has no
// opinion, and gives a reason. Union asks several in turn. A RuleResolver lists, where possible, everything that a user
// may do. Implementations are in the packages below: alwaysallow, alwaysdeny, superuser, abac, rbac, node, and webhook, which
// asks another server. Package selector converts the selectors of requests for authorizers, and signer asks them who may sign
// certificates. The suite authztest checks an implementation against the contract.
//
// An error returned with a decision says what could not be evaluated and implies no verdict. Everything here is safe
// for concurrent use.
package authz
