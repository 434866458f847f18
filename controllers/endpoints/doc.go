// Package endpoints writes the Endpoints of services that select pods, like the endpoints-controller of
// kube-controller-manager.
//
// The addresses of a service's pods are grouped into subsets, one for each set of ports that some of them have in
// common, with ready and unready addresses separate; publishNotReadyAddresses makes all of them ready. Pods being
// deleted are left out. Endpoints are truncated to a thousand addresses, unready ones first, and an annotation says so.
// Endpoints of services without a selector, or of type ExternalName, are left alone.
//
// A Controller runs in a controllers.Loop, with any number of workers. Errors are retried fifteen times with back-off,
// as upstream.
package endpoints
