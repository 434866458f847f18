// Package filelock excludes processes from each other by a file, whose lock the kernel takes back when its
// holder ends in whatever way. Two holders of the same process exclude each other, too.
package filelock
