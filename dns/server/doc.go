// Package server serves a cluster's names over UDP and TCP and to the Go programs of its own process, and forwards
// questions about other names to resolvers. It is the only package that knows the wire format, from
// github.com/miekg/dns.
//
// # Behaviour
//
// Answers about the cluster are authoritative, and addresses come in random order. An answer over UDP has no more bytes
// than the client allows and at most 1232, so that packets are not fragmented; a longer one is cut and marked, and the
// client asks again over TCP. Extended DNS is version 0.
//
// The answers of other resolvers are remembered, those about missing names too, no longer than they say and than
// Options.MaxTTL. Those that fail are tried in order of their list, each for two seconds, over TCP if an answer does
// not fit into a packet.
//
// # Limits
//
// The number of questions at other resolvers, of connections and of remembered answers is bounded. A packet that is not
// a question is ignored, a malformed one is answered with an error, and never by more bytes than it has. At its start
// a server asks its resolvers a question that only itself knows. If it gets it back, they ask this server, and it
// answers questions about other names with an error from then on.
//
// # Errors and concurrency
//
// Run fails if a socket does. All else is an answer: SERVFAIL if no resolver answers, REFUSED if there is none or too
// many questions wait. All methods may be called from many goroutines.
package server
