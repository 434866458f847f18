// Package typecheck compiles the expressions of admission policies, which are in CEL, with upstream's library. It evaluates
// nothing.
//
// A [Compiler] tells whether the expressions of new and changed policies are accepted; it is for
// admissionregistration.PolicyOptions.Compiler. The cost of expressions is bounded when they are evaluated.
//
// A [Checker] compares the expressions of a stored policy with the schemas of the kinds that it matches. What it finds are
// warnings in the policy's status. The schemas come from OpenAPI documents, see [Document].
//
// Compilers and checkers are safe for concurrent use.
package typecheck
