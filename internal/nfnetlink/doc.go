// Package nfnetlink speaks to the netfilter subsystems of the kernel: it encodes messages with nested attributes, sends
// transactions of nftables, and reads dumps. It has no notion of what the attributes mean.
//
// A Conn belongs to the network namespace of the thread that made it. It is not safe for concurrent use.
package nfnetlink
