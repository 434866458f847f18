// Package credentials finds the credentials for pulling a pod's images: those in the pod's image pull secrets, then
// those in the node's own docker configuration file. Entries are matched to images like upstream.
//
// An entry is for a host, with wildcards within the parts of its name, and for all images whose names begin with its
// path; more specific entries come first. Images whose names have no host are on Docker Hub.
//
// # Errors
//
// A secret that cannot be read is reported in an event, FailedToRetrieveImagePullSecret, and the pull is tried with the
// other credentials. A secret that is not a valid docker configuration is an error, [ErrInvalid]. Errors, events and
// logs never contain any of a secret's content.
//
// A [Keyring] keeps nothing and is safe for concurrent use.
package credentials
