// Package podtopologylabels is upstream's admission plugin PodTopologyLabels (KEP-4742): a pod that is bound to a node gets the
// labels of the node's zone and region, so that its containers can learn where they run.
//
// # Errors
//
// An object of another type than its resource fails the request; nothing else is refused. A node that is not known has no labels.
//
// A Plugin has no state of its own and is safe for concurrent use.
package podtopologylabels
