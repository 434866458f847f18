// Package apiregistration has the kind of the API group apiregistration.k8s.io: APIService, which says which server
// serves a version of an API group. Its rules and messages are those of Kubernetes 1.37. A Kind is data without
// state, safe for concurrent use.
package apiregistration
