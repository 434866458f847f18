// Package x509 authenticates by the client certificate of a request's TLS connection: the
// common name is the user, the organizations are the groups, and a UID may stand under
// Kubernetes' own attribute (1.3.6.1.4.1.57683.2).
//
// The TLS server only asks for a certificate (tls.RequestClientCert); whether it is good is
// judged here, for each request, against authorities that may change while the server runs:
// signatures once for a connection and authorities, validity each time. A request without a
// certificate, or with one that has no common name, carries no credentials. A bad certificate is
// an error that says which one and why; as another authenticator of a union may know the client
// by other credentials, it need not be the end of the request.
//
// New takes fixed authorities, or those of a file that Open has read and Run reads again.
// Everything here is safe for concurrent use.
package x509
