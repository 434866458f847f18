// Package controllers compares keelson's controllers with those of Kubernetes 1.37.1: random histories of users, kubelets
// and nodes happen twice in virtual time, once to keelson's controller and once to upstream's of that name, each alone over
// keelson's API server. After every step, what they have left in the API must be the same: all objects that the
// controller writes, but for random names and identifiers, with times that differ by a second at most, and its events.
//
// What is left to chance upstream is not compared, or kept out of the histories. It is named where that is done: in
// the fields of contest, in state_test.go, and in the steps. How often failures are repeated, which one of equal pods goes
// first, and events beyond what a source may send about an object are such things.
//
// Compared are the controllers of jobs, replication controllers, stateful sets, horizontal pod autoscalers, disruption
// budgets, jobs' times to live and the volume binder.
//
// It is a module of its own, because it depends on k8s.io/kubernetes and replaces the versions of the published
// modules; nothing imports it. Run it in this directory:
//
//	go test . -run TestJob -seed 7 -rounds 100
//
// With -rounds 1 and the number of a history as -first it replays that one; -trace and -show tell what happened.
package controllers
