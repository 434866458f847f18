// Package netns creates network namespaces that exist without a process in them, by pinning them at a path, and runs
// functions inside of them. It is for Linux; elsewhere every call fails with errors.ErrUnsupported.
//
// Pin namespaces in a directory of your own rather than /run/netns: the first "ip netns add" on a host mounts that
// directory over itself and hides everything pinned there before.
package netns
