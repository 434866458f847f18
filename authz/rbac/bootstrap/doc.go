// Package bootstrap is the initial RBAC policy of a cluster: exactly upstream v1.37's default roles and bindings under
// its default feature gates.
//
// Policy makes it, from tables in this package, in well under a millisecond. The rules of admin, edit and view, which
// upstream leaves to a controller, are already aggregated. Ensure updates an existing cluster to the policy through a
// client, as upstream does at every start: additions of an administrator stay, and objects annotated not to be updated
// are left alone.
package bootstrap
