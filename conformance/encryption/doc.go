// Package encryption compares keelson's encryption at rest with upstream's: each must read what the other's
// transformers write, for every provider; both must detect the same changes of stored bytes, with the same errors; and
// both must give the same errors for configuration files.
//
// It is a module of its own, because it depends on k8s.io/apiserver; nothing imports it. Run it in this directory:
//
//	go test .
//	go test . -run '^$' -bench .     # costs beside upstream's
package encryption
