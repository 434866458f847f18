// Package serving lets an API server be reached: TLS with HTTP/2 and HTTP/1.1, client certificates asked
// for (who they stand for is an authenticator's to say), slow and idle clients cut off, and a shutdown that
// lets requests finish.
//
// New starts nothing. Run serves until its context ends and returns when the last connection is closed.
// A Server is used once.
package serving
