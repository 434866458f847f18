// Package soak checks the guarantees that API servers give concurrent clients while their storage fails; see
// internal/linear for the guarantees. Its tests are the program: short as ordinary tests, and as long as requested by
//
//	make soak MINUTES=60 SEED=1
//
// which cycles through the scenarios and writes results/soak.json. The seed determines what clients do and when faults
// occur, but not how requests interleave. A violation is written to a directory named in the failure, with the whole
// history and porcupine's visualization of it.
package soak
