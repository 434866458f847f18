// Package endpoints writes the Endpoints of services that select pods, as the endpoints-controller
// of kube-controller-manager does.
//
// The addresses of a service's pods stand in subsets, one for each set of ports that some of them
// have in common, ready and not ready ones apart; publishNotReadyAddresses makes all of them
// ready. Pods being deleted are left out. What is more than a thousand addresses is cut, ready
// ones last, and an annotation says so. Endpoints of services that select nothing, or are names
// for something outside, are left alone.
//
// A Controller runs in a controllers.Loop, with any number of workers. Errors are retried
// fifteen times with back-off, as upstream.
package endpoints
