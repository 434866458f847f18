// Package admissiontest tests admission plugins without a server: it builds requests from objects, runs a
// plugin as an API server would, and checks that the plugin keeps its contract.
//
// Every run of a plugin fails the test if mutating twice gives another result than mutating once, if a
// validator changes the object, or if the old object is changed. [TestPlugin] checks all of that for many
// requests, also concurrently.
//
// Kinds are those of k8s.io/client-go/kubernetes/scheme; for others, fill in an admission.Request by hand.
// Requests that are passed to this package are not changed.
//
// Package cluster/admit runs whole requests instead: an object is decoded, defaulted, validated and checked by all plugins, given the
// state of a cluster. It is not below this package because it assembles a server, which an admission plugin's test need not link.
package admissiontest
