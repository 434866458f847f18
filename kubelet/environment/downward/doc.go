// Package downward implements the downward API: it reads the fields of a pod and the resources of its containers, for
// environment variables and downward API volumes.
//
// The functions are pure. Objects are only read. Errors name the unknown field or resource, in upstream's words.
package downward
