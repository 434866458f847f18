// Package cel evaluates the expressions of admission policies, which are in CEL, with upstream's library. [Compiler.Validating] and
// [Compiler.Mutating] compile policies for the plugins of package policy.
//
// Expressions have the variables object, oldObject, request, params, namespaceObject, variables, authorizer and
// authorizer.requestResource (https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/). Their
// cost is bounded as upstream bounds it, and they end with the context. What does not compile fails when evaluated.
//
// A Compiler and what it compiles are safe for concurrent use.
package cel
