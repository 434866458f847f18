// Package resourcequota admits writes only as far as the quotas of their namespace reach, as
// upstream's admission plugin of that name does. What a write takes is added to the usage in each
// quota's status before the write goes on; a controller takes it off again when the object is gone
// or was never written.
//
// The limits are exact, whichever number of API servers and writers there are: usage is changed by
// compare and swap alone, and who loses is judged again by the usage that the winner left.
// Requests of one namespace that wait at the same time in one process are charged together, by
// one write for each quota, so that they do not compete among themselves.
//
// A Plugin has no goroutines and is safe for concurrent use.
package resourcequota
