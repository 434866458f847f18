// Package apiserver records what the API server of Kubernetes 1.37.1 answers to the tables of
// requests in apiserver/testdata/upstream; the tests of package apiserver hold keelson's answers
// to these records, so that CI needs no build of upstream.
//
// It is a module of its own because it is slow; nothing imports it. Run it in this directory:
//
//	go test . -v                # are the records still what upstream answers?
//	go test . -v -record        # write them anew
//
// The first run builds kube-apiserver, which takes minutes, from the module kube-apiserver, which does
// not know keelson and so has upstream's versions of everything; -binaries DIR is where it is kept.
package apiserver
