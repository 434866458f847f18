// Package client compares keelson's client packages with kubectl 1.37: it runs kubectl's own commands in process,
// against keelson's API server, and compares the resulting objects and output with those of the packages below client.
//
// It is a module of its own, because it depends on k8s.io/kubectl; nothing imports it. Run it in this directory:
//
//	go test .                      # compares
//	go test . -update              # writes kubectl's answers into the testdata of client/...
//	go test . -rounds 50           # more random command lines
package client
