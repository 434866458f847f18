// Package linear tests the guarantees of API servers to concurrent clients. A Load uses servers through their HTTP API,
// whatever their storage, and records every answer; Check checks the record for these guarantees:
//
//   - Creates, reads, lists, updates with a resourceVersion, patches and deletions are linearizable, for each object
//     and for the namespace as a whole (by porcupine). An operation without an answer may have happened at any time
//     from then on, or never.
//   - Lists at a revision, pages and lists that may be old show the state at the revision they return.
//   - A watch delivers every change after the revision it starts from, through its selector, once, in order, with the
//     revision that the writer got; a bookmark never overtakes a change.
//   - Every visible change was requested, happened once and changed the object as requested; every acknowledged write
//     is visible.
//
// The record of all changes is assembled from watches, answers and reads; any disagreement among them is a violation. A
// server may answer 410 to a watch or a list at an old revision: the watcher then lists again.
//
// A Load is used by one goroutine at a time; it runs goroutines of its own only inside its methods.
package linear
