// Package downward reads what a pod may know of itself: its fields and the resources of its
// containers, as environment variables and downward API volumes give them out.
//
// The functions are pure. Objects are only read. Errors say which field or resource is not
// known, in upstream's words.
package downward
