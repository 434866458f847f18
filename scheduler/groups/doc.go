// Package groups knows which pods belong together: by the labels of their namespaces, and by the services and
// controllers that select them. The plugins InterPodAffinity and PodTopologySpread of package plugins ask it.
//
// # Errors
//
// There are none: what does not exist, or cannot be parsed, selects nothing.
//
// # Concurrency
//
// All methods may be called from any goroutine.
package groups
