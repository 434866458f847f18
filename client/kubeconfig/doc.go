// Package kubeconfig reads and writes the files that lead kubectl to a cluster.
//
// [Add] writes an [Entry], the way to one cluster as one user, into a file and keeps what else
// stands there.
//
// # Errors
//
// Errors name the file, the field and what to do next; they never hold a credential.
//
// # Concurrency
//
// Functions may be called from any goroutine. Writers of one file, kubectl config among them,
// keep out of each other's way by kubectl's lock file.
package kubeconfig
