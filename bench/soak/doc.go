// Package soak holds API servers to what they promise concurrent clients while what they stand on fails: see
// internal/linear for the promises. Its tests are the program: in short as ordinary tests, for as long as wanted by
//
//	make soak MINUTES=60 SEED=1
//
// which goes round the scenarios and writes results/soak.json. What clients do and when faults come follows from the
// seed; how requests interleave does not. A violation is written to a directory that the failure names, with the whole
// history and porcupine's picture of it.
package soak
