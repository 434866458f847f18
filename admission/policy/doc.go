// Package policy has the admission plugins ValidatingAdmissionPolicy and MutatingAdmissionPolicy, which judge and change
// requests by policies that are objects of the cluster, in the words of upstream's plugins.
//
// A policy acts through its bindings, which name the objects that parametrise it. Policies and bindings are read at each
// request. What compiles their expressions is given to the plugins: package [github.com/keelson-dev/keelson/admission/policy/cel] does it with
// upstream's library. A policy is compiled when it is first needed, and again only once it is another object.
//
// Package typecheck below checks the expressions of policies when they are stored.
//
// Refusals are a [*Denial], which carries the Status that the client gets, or an *admission.Error. The plugins are safe for
// concurrent use and have no goroutines.
package policy
