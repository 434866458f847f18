// Package rtnetlink is an overlay.Writer for Linux. It has a VXLAN device with a permanent neighbour for each node, and routes with
// a protocol number of their own, by which those of an earlier process are found and removed. It uses netlink, no programs, and
// needs the capability NET_ADMIN. Elsewhere New fails with errors.ErrUnsupported.
//
// A Writer works in the network namespace of the thread that called New.
package rtnetlink
