// Package status translates errors for clients: it makes a metav1.Status of the errors of the registry and its
// kinds, with upstream's messages. An API server sends it over the wire, a client in the same process (package
// direct) returns it as the error that a remote client would get.
//
// Nothing below the response to a client makes a Status: failures are the sentinels of package registry. All
// functions are safe for concurrent use.
package status
