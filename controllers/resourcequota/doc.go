// Package resourcequota keeps the usage in the status of resource quotas, as the
// resourcequota-controller of kube-controller-manager does.
//
// Admission raises the usage before an object is written, so there are always writes that were
// charged and cannot be seen yet. Upstream's controller counts what it sees and takes such charges
// off again, and then more is admitted than the quota allows. This one does not count and compare:
// it lowers the usage by what was given back, object by object, as it sees objects go, end or
// shrink, and never below what is there. Usage that nothing accounts for, such as what was charged
// for a write that failed, is taken off when the quota has not been charged for so long that no
// write can be on its way any more.
//
// That holds for one controller at a time: let a leader election choose.
package resourcequota
