// Package ownership is what controllers share about controller references: finding the owner a
// reference names, indexing dependents by owner, and claiming dependents, which adopts orphans
// that the owner selects and releases those it selects no longer.
//
// All functions are safe for concurrent use; objects passed in are not changed.
package ownership
