// Package filelock excludes processes from each other by a lock on a file, which the kernel releases however its holder
// ends. Two holders in the same process exclude each other, too.
package filelock
