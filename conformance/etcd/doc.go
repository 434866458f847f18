// Package etcd compares what keelson and the API server of Kubernetes 1.37.1 store in etcd: the two serve one etcd, in
// turn and at the same time, with objects of every kind that keelson stores, and each finds what the other left, byte
// for byte.
//
// The tests build kube-apiserver from conformance/apiserver/kube-apiserver, which takes minutes the first time;
// -binaries DIR is where it is kept, by default the repository's bin directory:
//
//	go test . -v
package etcd
