// Package memory is a Source that holds its objects in memory, with real resource versions, a bounded history and
// watches that resume or expire. It is for tests of code that reads a Source, and for programs whose state does not
// come from an API server.
//
// A Store keeps one kind. Its methods may be called from many goroutines; it starts none.
package memory
