// Package resourcequota is upstream's admission plugin ResourceQuota: it admits writes only within the quotas
// of their namespace. It adds what a write uses to the usage in each quota's status before the write proceeds;
// a controller subtracts it again when the object is deleted or was never written.
//
// The limits are exact for any number of API servers and writers: usage changes only by compare-and-swap, and
// the loser is checked again against the usage that the winner left. Requests of one namespace that wait at the
// same time in one process are charged together, with one write for each quota, so that they do not compete
// with each other.
//
// A Plugin has no goroutines and is safe for concurrent use.
package resourcequota
