// Package garbage removes what pods leave behind, as upstream's kubelet does: containers that have
// ended and are not the newest of their name, all containers, sandboxes and log directories of pods
// that are gone, and images that no container uses when their filesystem gets full or when they are
// old.
//
// What goes is decided by pure functions over lists (Containers, Sandboxes) and by an Inventory of
// images; a Collector is the loop around them. It keeps nothing on disk: after a restart an image is
// as good as new, so nothing is removed too early.
//
// A Collector is safe for concurrent use; an Inventory is for one goroutine.
package garbage
