// Package basic authenticates by user name and password (RFC 7617), against a CSV file as
// Kubernetes' API server took it as --basic-auth-file before 1.19: a password, a user name, a
// user id and, optionally, a quoted list of groups per record.
//
// Passwords travel with every request and stand in the file as they are: this is for
// development and for clients that know nothing else, and only over TLS.
//
// Parse reads such a file from an io.Reader. Open makes a Verifier of one on disk, whose Run
// reads it again whenever it changes; a file that became unreadable or malformed leaves the
// last good one in force and is logged. Errors and logs name lines, never passwords. Everything
// here is safe for concurrent use.
package basic
