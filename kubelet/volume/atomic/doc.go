// Package atomic writes the files of a directory all at once: whoever reads them sees all of them
// as they were before or all as they are after, at every moment, also when the writer is killed.
//
// The layout is upstream's, which programs in containers watch: the files are in a directory with
// a name of their own, the link ..data leads to it, and the names that readers use are links
// through ..data. Replacing ..data replaces all files.
//
//	name   -> ..data/name
//	sub    -> ..data/sub
//	..data -> ..2026_01_02_15_04_05.123456
//
// Names that begin with .. are the package's own. Other entries of the directory are left alone.
//
// # Errors and concurrency
//
// Write fails with ErrPath for paths that would lead elsewhere and otherwise with what the file
// system says. What a failed or killed write leaves behind is taken away by the next. Writes to
// one directory must not overlap; readers need no care, except that a program which opens two
// files may see a change between the two: one that minds opens ..data first.
package atomic
