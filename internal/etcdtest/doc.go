// Package etcdtest runs real etcd members for tests: processes of bin/etcd, which tools/etcd pins, with what
// it takes to kill them, to start them again and to take the network away between them.
//
// Start returns when the cluster answers; everything ends with the test, also when the test's own process is
// killed. Where etcd cannot be built the test is skipped, or fails if the environment variable CI is true.
//
// A cluster of several members, or one with Options.Proxies, is reached through proxies of the package's own.
// Each member speaks to each other one by a link that Cut and Heal control in both directions, and clients to
// each member by one that CutClients and Heal control.
//
// A Cluster's methods may be called concurrently, except that one member is started or ended by one goroutine
// at a time.
package etcdtest
