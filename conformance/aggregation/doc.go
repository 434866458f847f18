// Package aggregation runs an API server made of upstream's library, k8s.io/sample-apiserver, behind a cluster of keelson,
// which forwards requests to it and answers its questions of who a user is and what they may do; and one made of keelson's
// packages behind upstream's kube-apiserver. It is a module of its own because it imports upstream's implementation.
package aggregation
