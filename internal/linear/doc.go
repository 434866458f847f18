// Package linear tests whether API servers keep their promises to concurrent clients. A Load drives them through
// their HTTP API, whatever stands behind, and records what each client was told; Check holds the record to the
// promises:
//
//   - Creates, reads, lists, updates with a resourceVersion, patches and deletions are linearizable, for each object
//     and for the namespace as a whole (by porcupine). An operation without an answer may have happened at any time
//     from then on, or never.
//   - Lists at a revision, pages and lists that may be old show what there was at the revision they tell.
//   - A watch tells every change after the revision it starts from, through its selector, once, in order, with the
//     revision that the writer was told; a bookmark overtakes nothing.
//   - Every change that anybody sees was asked for, happened once and did to the object what was asked for; every
//     acknowledged write is seen.
//
// The record of all changes is put together from what watches, answers and reads show; where they disagree somebody was lied to.
// A server may answer 410 to a watch or a list at an old revision: the watcher then lists again.
//
// A Load is used by one goroutine at a time; it runs goroutines of its own only inside its methods.
package linear
