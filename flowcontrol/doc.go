// Package flowcontrol decides when requests are served, as API Priority and Fairness does (KEP-1040): requests are sorted
// into flows by FlowSchemas, and the flows of each PriorityLevelConfiguration share its seats, which are places among the
// requests being served at once.
//
// A Config sorts: Config.Classify is a pure function of schemas, levels and a request. Allot is the share of the server's
// seats that each level has, Lend how much of it levels lend to each other, given how much each could use. A Limiter makes
// requests wait accordingly; package fairqueuing below has the one that API servers use, package metrics what
// Prometheus reads of it, and package flowcontroltest the suite that every Limiter passes. DefaultSchemas and DefaultLevels are the objects that every API server keeps.
//
// Functions and values here are safe for concurrent use as long as nobody changes the objects that they were made of.
//
// Source: https://kubernetes.io/docs/concepts/cluster-administration/flow-control/
package flowcontrol
