// Package request interprets client requests before they reach the registry, however they were made: whether
// object and address agree, what a selector selects, what a patch changes. An API server and a client in the
// same process (package direct) share it, so that they refuse the same requests with the same messages.
//
// Errors carry a metav1.Status. All functions are safe for concurrent use.
package request
