// Package kubeconfig reads and writes the files that lead kubectl to a cluster.
//
// [Load] finds out which API server a program speaks to, and as whom: from an explicit file, else
// from the files that KUBECONFIG lists, else from ~/.kube/config, else (when asked) from what a pod
// is given. A context chooses a cluster and a user; overrides win over all files. Credentials are
// those of kubectl: x509, bearer tokens and token files, basic auth, OIDC tokens sent as bearer, and
// exec plugins. The rules are those of k8s.io/client-go/tools/clientcmd, without its reading of the
// process's environment: an [Environment] is passed in.
//
// [Add] writes an [Entry], the way to one cluster as one user, into a file and keeps what else
// stands there.
//
// # Errors
//
// Errors name the file, the field and what to do next; they never hold a credential. [ErrNoServer],
// [ErrNotFound] and [ErrLocked] tell apart what a program may want to handle; an error of the file
// system stays visible to errors.Is.
//
// # Concurrency
//
// Functions may be called from any goroutine. Writers of one file, kubectl config among them,
// keep out of each other's way by kubectl's lock file.
package kubeconfig
