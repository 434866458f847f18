// Package scheduling compares keelson's scheduler with the scheduler of Kubernetes 1.37.1. It makes random clusters and
// has both decide about the same pods: each plugin's verdict on each node, the message about a pod that fits nowhere, and
// each plugin's scores must be the same. Pods that fit are placed on the same node on both sides, where their volumes are
// reserved, so that later decisions depend on earlier ones. It also compares which events are a reason to try a refused pod
// again, and whom both preempt.
//
// It is a module of its own, because it depends on k8s.io/kubernetes and replaces the versions of the published modules;
// nothing imports it. Run it in this directory:
//
//	go test -vet=off .                           # 2,000 clusters of each kind
//	go test -vet=off . -clusters 50000 -seed 7   # more, and others
//	go test -vet=off . -run 'Mixed$' -cases 1000000   # so many verdicts with all features at once
//
// A difference names the cluster; run it alone with -seed and -clusters 1.
package scheduling
