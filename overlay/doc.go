// Package overlay lets the pods of different hosts reach each other: each node has a network of its own for its pods
// (spec.podCIDRs, see controllers/nodeipam), and every host has routes to those of the others. Hosts on one segment are each
// other's routers; between others packets travel in VXLAN. No host changes the addresses of packets on the way.
//
// Decide is the decision, a pure function of the nodes. An Overlay follows them by an informer and has a Writer make the
// host's state what was decided: package overlay/rtnetlink writes to Linux. MTU says how long packets of pods may be.
//
// # What nodes may say
//
// A node is believed what harms no other: its networks must be within the cluster's and overlap with no older node's, its
// address must be one that a host can have outside of the pods' networks. What is not believed is a Refusal, and logged.
// Whoever may change Node objects can still take over pod addresses that no node has.
//
// # Errors and concurrency
//
// Failed writes are logged and repeated. An Overlay starts no goroutines before Run and leaves none behind. Decide may be
// called by many goroutines.
package overlay
