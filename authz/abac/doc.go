// Package abac is upstream's attribute-based Authorizer: it allows what a line of a policy file allows, and has no opinion otherwise.
//
// A line is a JSON object, apiVersion abac.authorization.kubernetes.io/v1beta1 and kind Policy, or one of the old form without a
// version; empty lines and those that begin with # count for nothing.
//
// # Errors
//
// Parse fails with a *LineError, which names the line; Open adds the file's name. A request without a user is an authz.ErrNoUser.
// A policy for nobody, which upstream takes and which allows nothing, is an error here.
//
// # Concurrency
//
// Policies are safe for concurrent use as long as nobody changes them.
package abac
