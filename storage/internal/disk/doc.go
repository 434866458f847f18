// Package disk is the file layer under durable backends: one directory of flat files, with exactly the operations that
// a crash-safe program needs and must take care with. OS is the operating system's; crashdisk has one that loses and
// tears whatever was not synced.
package disk
