// Package proxy decides where packets to the addresses of services go, as kube-proxy does in its nftables mode, and keeps
// those decisions where packets are.
//
// Of is the decision: a pure function from a service, its endpoint slices and what is known of the node to Ports, plain
// values. Tables are all of them, with what holds for every service; Tables.Decide says what becomes of a packet. A
// Writer puts tables into effect. Package memory has one that only keeps them, for tests and simulated nodes; package
// nftables has one for this machine's kernel; package proxytest has the suite that both pass. A Proxy follows the
// objects of a cluster through informers and has its Writer write what has changed.
//
// # What is proxied
//
// Cluster IPs, external IPs, the addresses of load balancers whose mode is VIP, and node ports, over TCP, UDP and SCTP
// and in both families. Headless services and those of the type ExternalName are left alone. The semantics are those of
// kube-proxy 1.37: traffic policies, session affinity, source ranges of load balancers, topology hints, endpoints that
// still serve while they terminate. A service without endpoints rejects packets; one whose policy is Local and that has
// none on this node drops them.
//
// Node ports do not answer at loopback addresses, as in kube-proxy's nftables mode.
//
// # Health checks
//
// Load balancers ask nodes whether they have endpoints of a service whose external policy is Local. ChecksOf says what to
// answer, as a pure function, and a Checker answers: package healthcheck has one on the sockets of a host, package memory
// one that only keeps what it would say. A Health tells whether a Proxy keeps up.
//
// # Several nodes, several clusters
//
// One Proxy serves all nodes that share a network namespace: Options.Nodes names them. Clusters that share one each have
// a Proxy with tables of their own; their Settings.Pods tell whose packets are whose.
//
// # Errors and concurrency
//
// What fails is logged and tried again. Run serves a Proxy once; everything else here is a value.
package proxy
