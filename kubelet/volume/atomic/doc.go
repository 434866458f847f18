// Package atomic replaces all files of a directory at once: at every moment, readers see either all old files or all
// new ones, even if the writer is killed.
//
// The layout is upstream's, which programs in containers watch: the files are in a directory with a unique name, the
// link ..data points to it, and the names that readers use are links through ..data. Replacing ..data replaces all
// files.
//
//	name   -> ..data/name
//	sub    -> ..data/sub
//	..data -> ..2026_01_02_15_04_05.123456
//
// Names that begin with .. belong to the package. Other entries of the directory are left alone.
//
// # Errors and concurrency
//
// Write fails with ErrPath for paths that would lead elsewhere, and otherwise with the file system's errors. The next
// write removes what a failed or killed one has left behind. Writes to one directory must not overlap. Readers need no
// locking, but a program that opens two files may see a change between the two; to avoid that, it opens ..data first.
package atomic
