// Package networkpolicy decides which connections of pods the NetworkPolicies of a cluster allow, and by which rule, and
// keeps those decisions where packets are.
//
// Of reads one policy. Compile makes Tables, plain values, from the policies, namespaces and pods of a cluster;
// Tables.Decide says what becomes of a packet, and why. A Writer puts tables into effect. Package memory has one that
// only keeps them, for tests and simulated nodes; package nftables has one for this machine's kernel; package policytest
// has the suite that both pass. An Enforcer follows the objects of a cluster through informers and has its Writer write
// what has changed.
//
// # What is enforced
//
// networking.k8s.io/v1, in both directions, for TCP, UDP and SCTP and in both families. What the API leaves open is
// decided like this:
//   - Policies see packets as they are once a service has chosen an endpoint: egress needs a rule for the endpoint, and
//     ingress sees the client's own address, unless it was masqueraded on another node.
//   - Packets between a pod and its own node, whatever address they have, and of a pod to itself always pass; so do the
//     answers of a connection that was allowed, and what belongs to one that was there before a policy.
//   - Pods on the network of their node are not isolated and are not selected as peers; a block may contain their address.
//     Pods that have ended are neither.
//   - Protocols other than those three need a rule for all ports. The discovery of neighbors in IPv6 always works.
//   - A pod is isolated once its address is in its status, perhaps a moment after it has started.
//   - Only addresses in the status of pods are policed. A pod that may give itself others, or has a link-local one on a
//     shared bridge, is not held back from using them.
//
// # Errors and concurrency
//
// What fails is logged and tried again. Run serves an Enforcer once; everything else here is a value.
package networkpolicy
