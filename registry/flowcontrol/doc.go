// Package flowcontrol has the kinds of the API group flowcontrol.apiserver.k8s.io, FlowSchema and PriorityLevelConfiguration,
// and the objects of them that every API server keeps. Package upkeep below it keeps them.
//
// Nothing acts on these kinds: package apiserver shares its places for requests by fixed rules, which have the levels of the
// default objects but not their queues. Writes of a spec are answered with a warning that says so.
package flowcontrol
