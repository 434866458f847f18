// Package denyserviceexternalips is upstream's admission plugin DenyServiceExternalIPs: it refuses services that ask for external
// addresses which they do not have yet. Whoever may write services could otherwise take traffic to any address (CVE-2020-8554).
//
// # Errors
//
// A new external address is an admission.ErrForbidden; an object that is not a service is an admission.ErrInternal.
//
// A Plugin has no state and is safe for concurrent use.
package denyserviceexternalips
