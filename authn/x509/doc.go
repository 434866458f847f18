// Package x509 authenticates by the client certificate of a request's TLS connection: the common name is the user, the
// organizations are the groups, and an attribute of Kubernetes' own (1.3.6.1.4.1.57683.2) may hold the UID.
//
// The TLS server only requests a certificate (tls.RequestClientCert). It is verified here, for each request, against
// authorities that may change while the server runs: signatures once per connection and set of authorities, validity
// each time. A request without a certificate, or with one without a common name, has no credentials. A bad certificate
// is an error that says which one and why. It need not fail the request: another authenticator of a union may accept
// other credentials.
//
// New takes fixed authorities, or those of a file that Open reads and Run keeps up to date. Everything here is safe for
// concurrent use.
package x509
