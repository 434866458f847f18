// Package audit holds the matching and validation of audit policies to upstream's own code, on
// random policies and requests.
//
// It is a module of its own because of what that code is built from; nothing imports it. Run it
// in this directory:
//
//	go test .
package audit
