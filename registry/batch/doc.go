// Package batch has the kinds of the API group batch: Job and CronJob. Defaults, rules and messages are those of
// Kubernetes 1.37. Errors are field errors, and warnings go to the client of a request (registry.Warn). A Kind is data
// without state, safe for concurrent use.
//
// Pods of a template are validated, but not warned of.
package batch
