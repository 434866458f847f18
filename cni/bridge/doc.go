// Package bridge makes the network of a node out of a Linux bridge: it sets up the device with the
// node's addresses, has what leaves the node masqueraded, and writes the CNI configuration by
// which the reference plugins bridge, host-local and portmap attach pods to it, whoever runs them.
//
// # Why not let the plugins do it all
//
// The bridge plugin can masquerade, too, but adds and removes rules for each pod, which takes
// longer than everything else it does. Here one nftables table per bridge does it for the whole
// subnet. The device exists before the first pod, and so the address of the node does.
//
// # Several nodes on one host
//
// Each has a bridge, a network name and a subnet of its own. Pods reach those of other bridges by
// routing; name the cluster's range in Options.Internal, so that they keep their addresses there.
//
// # What changes on the host
//
// Up turns IP forwarding on, and Down leaves it on, since others may have come to rely on it.
// With IPv6 that ends the host's listening to router advertisements, unless its uplink is told to go
// on (accept_ra = 2). Everything else Down removes: the device with its ports, the table, the addresses on record and
// port mappings that lead into the subnet. Both run the commands ip and nft, which need root.
//
// A host whose own firewall drops what it forwards has to make an exception for the device: no
// other table can overrule one that drops.
//
// A Bridge is safe for concurrent use as long as Up and Down do not run at the same time.
package bridge
