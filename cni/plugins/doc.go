// Package plugins is a cni.Network that runs CNI plugin executables, through libcni, according to the first
// configuration in a directory.
//
// # Configuration
//
// The directory is read at every call, so that a change takes effect with the next one and nothing has to watch it. The
// effective configuration is the first valid file of *.conflist, *.conf and *.json, in lexical order. Errors in files
// before it are logged once, and are part of the error if none is valid. An attachment is checked and removed with the
// configuration that created it, whatever the directory contains by then.
//
// # State
//
// Options.StateDir keeps a record of each attachment, written before the first plugin runs, and the results cached by
// libcni. So a Network that starts after a crash knows the earlier attachments, and Collect can remove those no longer
// wanted. Two Networks must not share a StateDir.
//
// # Plugins that hang
//
// A plugin whose context ends, or whose Options.Timeout is over, is killed with its process group. A failed Add runs
// the plugins' DEL for at most Options.Cleanup before it returns.
//
// Errors are those of package cni. A Network has no goroutines of its own and nothing to close.
package plugins
