// Package rest is a client.Client over k8s.io/client-go/rest: a REST client per group-version,
// all with the config's transport, credentials and rate limit. The config may lead to a
// listener or, by its Transport, to a handler in the same process.
//
// Errors are those of k8s.io/apimachinery/pkg/api/errors. A Client is safe for concurrent use
// and starts no goroutines.
package rest
