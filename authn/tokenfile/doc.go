// Package tokenfile reads the CSV file of bearer tokens that upstream's API server takes as --token-auth-file: each
// record has a token, a user name, a user ID and, optionally, a quoted list of groups.
//
// Parse reads such a file from an io.Reader. Open makes a token.Verifier of one on disk, whose Run reads it again
// whenever it changes; if the file becomes unreadable or malformed, the last good content stays in force, and the error
// is logged. Everything here is safe for concurrent use.
package tokenfile
