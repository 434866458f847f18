// Package resourcequota keeps the usage in the status of resource quotas up to date, like the resourcequota-controller
// of kube-controller-manager.
//
// Admission raises the usage before an object is written, so there are always charges for writes that cannot be seen
// yet. Upstream's controller counts the objects it sees and removes such charges, which then admits more than the quota
// allows. This one lowers the usage, object by object, by what it sees deleted, ended or shrunk, and never below the
// usage of the existing objects. Usage that nothing accounts for, such as the charge for a failed write, is removed
// when the quota has not been charged for so long that no write can still be in flight.
//
// This requires that only one controller runs at a time: use leader election.
package resourcequota
