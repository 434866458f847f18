// Package storagetest is the conformance suite of package storage, for the author of a backend:
// it holds a storage.Store to every sentence of the contract.
//
// What a backend promises beyond the contract (durability, how much history it keeps) is its own
// to test. The suite needs no other packages, takes about a second on a backend in memory, and
// takes its randomness from fixed seeds, which a failure names.
package storagetest
