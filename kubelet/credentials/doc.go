// Package credentials finds what to tell a registry from which a pod's image is pulled: the image
// pull secrets of the pod, then what the node itself has in a docker configuration file. Which
// entry is meant for an image is decided as upstream does.
//
// An entry is for a host, with wildcards within the parts of its name, and for all images whose
// names begin with its path; more specific entries come first. Images whose names have no host are
// Docker Hub's.
//
// # Errors
//
// A secret that cannot be had is told in an event, FailedToRetrieveImagePullSecret, and the pull
// is tried with what there is. A secret that is there and no docker configuration is an error,
// [ErrInvalid]. Neither errors nor events nor logs repeat anything of a secret's content.
//
// A [Keyring] keeps nothing and is safe for concurrent use.
package credentials
