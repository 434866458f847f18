// Package eviction keeps a node working when memory, disk or process ids run short, as upstream's
// kubelet does: it tells the conditions of the node, throws away what is not needed (dead
// containers, unused images), and evicts pods, those first that use more than they asked for. It also
// evicts pods that write more to local storage than they may.
//
// The decisions are pure: thresholds are read by Parse; a Core learns of Observations and says which
// thresholds call for action and which conditions the node has; Rank, Message, LocalStorage and
// Admit say what that means for pods. An Evictor is the loop around them.
//
// An Evictor is safe for concurrent use; a Core is for one goroutine.
package eviction

import "errors"

// ErrThreshold: what should be a threshold is none.
var ErrThreshold = errors.New("invalid eviction threshold")
