// Package apiservice has the controllers of APIServices, which upstream's API server runs:
//
//   - Availability keeps the condition Available: it looks for the service and its endpoints, and asks the server.
//   - Registration creates, restores and deletes the APIServices of the versions that the API server itself serves.
//   - Discovery has what the other servers serve read again, when an APIService changes and once a minute.
//
// Failed checks and writes are returned by Reconcile and retried. The controllers start no goroutines and are safe for
// concurrent use by the workers of a Loop.
package apiservice
