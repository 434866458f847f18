// Package registry is the kinds of the API and the cache they are served from.
//
// A Kind says what one resource is called, how it decodes and what a write of it must satisfy;
// the packages below this one hold upstream's kinds, a package per API group. A Registry keeps
// the decoded objects of all its kinds over a storage.Store: every object is decoded once and
// shared by all readers, its encodings are kept once somebody asked for them, and one revision
// clock orders everything. Reads come from memory; a read sees every write that was
// acknowledged before it began. Old states can be listed and changes watched as far back as
// Options.History, Options.HistoryBytes and Options.Compaction reach, also across a restart where the
// store has kept the changes (storage.Historian).
//
// Several registries, in one process or in many, may stand on one store. Each follows all changes
// by one watch; a read that must be consistent asks the store for its revision and waits until the
// registry has come there, and what a write was refused for is looked at again if the registry was
// behind. A record that cannot be read is an error of its own: reads of it fail, lists leave it out
// and warn.
//
// Objects handed out are shared: nobody may change them. Errors about a request are of type
// *Error around the sentinels of this package; all others mean that the registry or its store
// failed. Everything is safe for concurrent use.
package registry
