// Package announce tells the neighbors of a bridge's pods, and the host, which hardware address an address has when a new
// pod gets it.
//
// A pod's hardware address is random, and its address is used again when all others of the subnet have been. Whoever knew
// the pod before sends packets for the new one to a hardware address that nobody has, until the kernel doubts it: for about
// ten seconds. The bridge plugin has the kernel announce a pod as its device comes up, but the bridge drops that packet, as
// its port is not yet forwarding then (github.com/containernetworking/plugins/issues/858).
//
// An Announcer does it once a pod is attached: with an ARP announcement (RFC 5227, section 3) or an unsolicited neighbor
// advertisement (RFC 4861, section 7.2.6) to all ports of the bridge.
package announce
