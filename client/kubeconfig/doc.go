// Package kubeconfig reads and writes the files that tell kubectl how to reach a cluster.
//
// [Load] finds the API server for a program, and its credentials: from an explicit file, else from the files that
// KUBECONFIG lists, else from ~/.kube/config, else (on request) from a pod's environment. A context selects a cluster
// and a user; overrides take precedence over all files. Credentials are those of kubectl: x509, bearer tokens and token
// files, basic auth, OIDC tokens sent as bearer, and exec plugins. The rules are those of
// k8s.io/client-go/tools/clientcmd, except that it does not read the process's environment: an [Environment] is passed
// in.
//
// [Add] writes an [Entry], with a server and the credentials for it, to a file and keeps its other content.
//
// # Errors
//
// Errors name the file, the field and what to do next; they never contain a credential. [ErrNoServer], [ErrNotFound]
// and [ErrLocked] are errors that a program may want to handle; an error of the file system is wrapped.
//
// # Concurrency
//
// Functions may be called from any goroutine. Writers of one file, including kubectl config, exclude each other by
// kubectl's lock file.
package kubeconfig
