// Package upgrade speaks HTTP upgrades (RFC 9110, section 7.8) as a client and passes them on as a
// proxy: after the answer the bytes of either side go to the other as they are, whatever the
// protocol is.
//
// Everything that copies ends with its context and closes both connections before it returns.
package upgrade
