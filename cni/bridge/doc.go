// Package bridge builds the network of a node on a Linux bridge: it sets up the device with the node's addresses,
// masquerades traffic that leaves the node, and writes the CNI configuration by which the reference plugins bridge,
// host-local and portmap attach pods to it, with any runtime.
//
// # Why not let the plugins do it all
//
// The bridge plugin can masquerade, too, but adds and removes rules for each pod, which takes longer than everything
// else it does. Here one nftables table per bridge does it for the whole subnet. The device, and thus the node's
// address, exists before the first pod.
//
// # Several nodes on one host
//
// Each has a bridge, a network name and a subnet of its own. Pods reach those of other bridges by routing; add the
// cluster's range to Options.Internal, so that their addresses are kept.
//
// # What changes on the host
//
// Up turns IP forwarding on, and Down leaves it on, since others may rely on it. With IPv6, forwarding makes the host
// ignore router advertisements, unless its uplink has accept_ra = 2. Down removes everything else: the device with its
// ports, the table, the leases and port mappings into the subnet. Both run the commands ip and nft, which need root.
//
// A host whose own firewall drops forwarded packets must exempt the device: no other table can overrule a drop.
//
// # Addresses that are used again
//
// Whoever knew the pod that had an address before does not find the next one for about ten seconds. Package announce tells
// them; run its Announcer while pods are attached.
//
// A Bridge is safe for concurrent use as long as Up and Down do not run at the same time.
package bridge
