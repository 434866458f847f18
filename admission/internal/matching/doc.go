// Package matching tells which requests the rules and selectors of webhooks and policies select. Its functions are pure and
// safe for concurrent use.
package matching
