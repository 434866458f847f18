// Package tokenfile reads the CSV file of bearer tokens that upstream's API server takes as
// --token-auth-file: a token, a user name, a user id and, optionally, a quoted list of groups
// per record.
//
// Parse reads such a file from an io.Reader. Open makes a token.Verifier of one on disk, whose
// Run reads it again whenever it changes; a file that became unreadable or malformed leaves the
// last good one in force and is logged. Everything here is safe for concurrent use.
package tokenfile
