// Package upgrade performs HTTP upgrades (RFC 9110, section 7.8) as a client and forwards them as a proxy: after the
// response, bytes are copied unchanged in both directions, whatever the protocol.
//
// Every copy ends with its context and closes both connections before it returns.
package upgrade
