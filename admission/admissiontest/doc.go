// Package admissiontest tests admission plugins without a server: it builds requests from
// objects, runs a plugin as an API server would, and holds it to the contract on the way.
//
// Whatever runs a plugin here fails the test when mutating twice gives another result than
// mutating once, when a validator changes the object, or when the old object is touched.
// [TestPlugin] holds a plugin to all of that for many requests, also at once.
//
// Kinds are those of k8s.io/client-go/kubernetes/scheme; for others fill an admission.Request
// by hand. Requests given to this package are not changed.
package admissiontest
