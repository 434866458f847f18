// Package message formats errors for users with kubectl's texts: what the server refused and why, that it cannot be
// reached, that it does not serve a resource.
//
// It has no state and returns no errors of its own.
package message
