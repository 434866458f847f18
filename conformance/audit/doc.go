// Package audit compares the matching and validation of audit policies with upstream's own code, on random policies and
// requests, and what webhooks for events are sent and lose, on random events and answers.
//
// It is a module of its own because of that code's dependencies; nothing imports it. Run it in this directory:
//
//	go test .
package audit
