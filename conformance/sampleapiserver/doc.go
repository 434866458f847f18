// Package sampleapiserver pins upstream's sample API server at the version of the image that the conformance suite runs
// behind a cluster's aggregator: an old one, to show that it still works. It is a module of its own, so that it is built with
// the versions of its time, and has no code.
//
// internal/upstream builds it.
package sampleapiserver
