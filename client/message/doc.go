// Package message tells people about errors in kubectl's words: what the server refused and why,
// that it cannot be reached, that it does not serve a resource.
//
// It has no state and returns no errors of its own.
package message
