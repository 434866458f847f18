// Package apiserver records the answers of the API server of Kubernetes 1.37.1 to the tables of requests in
// apiserver/testdata/upstream. The tests of package apiserver compare keelson's answers with these records, without a
// build of upstream in CI.
//
// It is a module of its own because it is slow; nothing imports it. Run it in this directory:
//
//	go test . -v                # does upstream still give the recorded answers?
//	go test . -v -record        # record them again
//
// The first run builds kube-apiserver, which takes minutes, from the module kube-apiserver, which does not depend on
// keelson and therefore has upstream's versions of all dependencies; -binaries DIR is where it is kept.
package apiserver
