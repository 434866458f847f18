// Package basic authenticates by user name and password (RFC 7617), against the CSV file that Kubernetes' API server
// took as --basic-auth-file before 1.19: each record has a password, a user name, a user ID and, optionally, a quoted
// list of groups.
//
// Passwords are sent with every request and stored in clear: use this only for development, or for clients that support
// nothing else, and only over TLS.
//
// Parse reads such a file from an io.Reader. Open makes a Verifier of one on disk, whose Run reads it again whenever it
// changes; if the file becomes unreadable or malformed, the last good content stays in force, and the error is logged.
// Errors and logs name lines, never passwords. Everything here is safe for concurrent use.
package basic
