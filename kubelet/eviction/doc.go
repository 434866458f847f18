// Package eviction keeps a node working when memory, disk or process IDs run short, like upstream's kubelet: it reports
// the conditions of the node, reclaims what is not needed (dead containers, unused images), and evicts pods, those that
// use more than they requested first. It also evicts pods that exceed their local storage limits.
//
// The decisions do no I/O: Parse reads thresholds; a Core takes Observations and returns the thresholds that require
// action and the node's conditions; Rank, Message, LocalStorage and Admit decide about pods. An Evictor is the loop
// around them.
//
// An Evictor is safe for concurrent use; a Core is for one goroutine.
package eviction

import "errors"

// ErrThreshold means that a threshold is invalid.
var ErrThreshold = errors.New("invalid eviction threshold")
