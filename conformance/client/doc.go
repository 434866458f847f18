// Package client holds keelson's client stage to kubectl 1.37: it runs kubectl's own commands in
// process, against keelson's API server, and compares what they make and print with what the
// packages below client make and print.
//
// It is a module of its own, because it is built from k8s.io/kubectl; nothing imports it. Run it in
// this directory:
//
//	go test .                      # compares
//	go test . -update              # writes kubectl's answers into the testdata of client/...
//	go test . -rounds 50           # more random command lines
package client
