// Package storageengines compares engines for the embedded store: small writes, each durable before it is acknowledged,
// from several concurrent writers. docs/decisions/storage-engine.md records the outcome. Run it with
//
//	go test -bench . -benchtime 3s ./bench/storage-engines
package storageengines
