// Package etcdtest runs real etcd members for tests: processes of bin/etcd, which tools/etcd pins. It can kill and
// restart them and cut the network between them.
//
// Start returns when the cluster answers; everything ends with the test, even if the test's own process is killed. If
// etcd cannot be built, the test is skipped, or fails if the environment variable CI is true.
//
// A cluster of several members, or one with Options.Proxies, is reached through the package's own proxies. Cut and Heal
// control the links between each pair of members, in both directions, and CutClients and Heal the link from clients to
// each member.
//
// A Cluster's methods may be called concurrently, except that only one goroutine at a time may start or stop a member.
package etcdtest
