// Package authz decides who may do what.
//
// The contract is Authorizer: one method from the Attributes of a request to a Decision, which
// allows, denies or has no opinion, and says why. Union asks several in turn. A RuleResolver
// lists, where that is possible, everything somebody may do. Implementations live in the
// packages below: alwaysallow, alwaysdeny, superuser, rbac, node. The suite authztest holds an
// implementation to the contract.
//
// An error beside a decision says what could not be evaluated and implies no verdict. Everything
// here is safe for concurrent use.
package authz
