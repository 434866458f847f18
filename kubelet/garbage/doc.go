// Package garbage removes what pods leave behind, like upstream's kubelet: dead containers that are not the newest of
// their name; all containers, sandboxes and log directories of pods that are gone; and images that no container uses,
// when their filesystem gets full or when they are old.
//
// Pure functions over lists (Containers, Sandboxes) and an Inventory of images decide what to remove; a Collector is
// the loop around them. It keeps nothing on disk: after a restart every image counts as new, so nothing is removed too
// early.
//
// A Collector is safe for concurrent use; an Inventory is for one goroutine.
package garbage
