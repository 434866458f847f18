// Package alwayspullimages is upstream's admission plugin AlwaysPullImages: it has every image of a pod pulled at every start of
// a container, with the pod's own credentials. Without it, a pod can use an image that is on its node because another pod was
// allowed to pull it.
//
// Updates that name no new image are left alone, so that pods from before the plugin stay updatable.
//
// # Errors
//
// Pull policies that another plugin sets afterwards are an admission.ErrForbidden; an object that is not a pod is an
// admission.ErrBadRequest.
//
// A Plugin has no state and is safe for concurrent use.
package alwayspullimages
