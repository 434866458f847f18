// Package serving serves an API server over a network: by TLS, with HTTP/2 and HTTP/1.1. It asks for client certificates
// (authenticators decide whose they are), closes the connections of slow and idle clients, and lets requests finish when
// it shuts down.
//
// New starts nothing. Run serves until its context ends and returns when the last connection is closed.
// A Server is used once.
package serving
