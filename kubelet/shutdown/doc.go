// Package shutdown ends a node's pods before the machine goes down (KEP-2000, KEP-2712), as upstream's node shutdown
// manager does: while an [Inhibitor] delays the shutdown, pods end in order of their priorities, each group within its
// own grace period; meanwhile the node is not ready and admits no pods. If the shutdown is cancelled, the node goes on.
//
// [Groups] and [Order] are pure. A [Manager] is safe for concurrent use and runs once. Failures of the inhibitor are
// logged, and it is opened again after a second.
package shutdown
