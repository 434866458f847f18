// Package bootstrap is the RBAC policy that a new cluster starts with: upstream v1.37's default
// roles and bindings, under its default feature gates, with its names, labels and rules to the
// letter.
//
// Policy makes it, from tables in this package, in well under a millisecond. The rules of admin,
// edit and view, which upstream leaves to a controller, are already aggregated. Ensure brings an
// existing cluster up to the policy through a client, as upstream does at every start: what an
// administrator added stays, and what is annotated not to be updated is left alone.
package bootstrap
