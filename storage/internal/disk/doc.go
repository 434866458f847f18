// Package disk is the file layer under durable backends: one directory of flat files, with
// exactly the operations a crash-safe program needs and is careful about. The operating system's
// is OS; crashdisk has one that loses and tears whatever was not synced.
package disk
