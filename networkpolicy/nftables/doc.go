// Package nftables writes the tables of package networkpolicy into this machine's kernel, by netlink: no other program is
// needed, only the right to administer the network (CAP_NET_ADMIN).
//
// A Writer has one table of its own and touches no other. It decides on what the host forwards. Packets between pods on
// the ports of one bridge are among these if the kernel takes them there, which PoliceBridges has it do.
package nftables
