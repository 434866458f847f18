// Package nftables writes the tables of package proxy into this machine's kernel, by netlink: no other program is needed,
// only the right to administer the network (CAP_NET_ADMIN).
//
// A Writer has one table of its own and touches no other.
package nftables
