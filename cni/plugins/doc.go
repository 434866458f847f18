// Package plugins is a cni.Network that runs CNI plugin executables, by libcni, as the first
// configuration in a directory says.
//
// # Configuration
//
// The directory is read anew at every call, so that a change counts from the next one on and
// nothing has to watch it. Of the files *.conflist, *.conf and *.json the first that is valid, in
// lexical order, counts; what is wrong with those before it is logged once, and is part of the
// error when none is left. What was attached by one configuration is checked and taken back by the
// same one, whatever the directory says by then.
//
// # State
//
// Options.StateDir keeps a record of each attachment, written before the first plugin runs, and
// the results that libcni caches. With it a Network that starts after a crash knows what there
// was: Collect takes back what is not wanted any more. Two Networks must not share a StateDir.
//
// # Plugins that hang
//
// A plugin whose context ends, or whose Options.Timeout is over, is killed with its process group.
// An Add that fails runs the plugins' DEL for at most Options.Cleanup before it returns.
//
// Errors are those of package cni. A Network has no goroutines of its own and nothing to close.
package plugins
