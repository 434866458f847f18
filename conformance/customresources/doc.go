// Package customresources compares custom resources with those of upstream's API server: random definitions, random
// objects of them and random changes get the same answer from both servers. Answers are compared as clients see them: the
// code, the Status with its causes, the warnings, and the object after pruning and defaulting.
//
// It is a module of its own because it is slow; nothing imports it. Run it in this directory:
//
//	go test .                                       # a few thousand requests
//	go test . -v -timeout 0 -cases 100000 -seed 7   # more, reproducible by their seed
//
// The first run builds kube-apiserver, which takes minutes.
package customresources
