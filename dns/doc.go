// Package dns answers questions about the names of a cluster's services and pods, by version 1.1.0 of the Kubernetes
// DNS specification and with the answers of CoreDNS' plugin kubernetes, option "pods insecure". Package server serves
// the answers over UDP, TCP and in process, and forwards other questions.
//
// An [Index] finds services and endpoints in the caches of informers, which may be shared; a [Zone] is a function from
// a [Question] to an [Answer] over an index. Neither does any I/O. Their number in a process is not limited.
//
// # Names
//
// Below the zone's domain there are
//
//	SERVICE.NAMESPACE.svc                        A, AAAA, SRV; CNAME of an ExternalName
//	_PORT._PROTOCOL.SERVICE.NAMESPACE.svc        SRV, and the addresses
//	HOSTNAME.SERVICE.NAMESPACE.svc               A, AAAA, SRV of an endpoint
//	10-1-2-3.SERVICE.NAMESPACE.svc               the same of an endpoint without a hostname
//	10-1-2-3.NAMESPACE.pod                       A, AAAA, whether or not there is such a pod
//	dns-version                                  TXT
//	ns.dns                                       A, AAAA: the addresses of the server
//
// and in the reverse zones PTR for cluster IPs and endpoints. Only ready endpoints are listed; the endpoint slices of a
// service with publishNotReadyAddresses list all as ready. Endpoints of address type FQDN are left out. Names are case
// insensitive, and there are no wildcards.
//
// # Memory
//
// Beside the informers' caches an index has about 40 bytes for each cluster IP, endpoint slice and endpoint address.
//
// # Concurrency
//
// All methods may be called from many goroutines.
package dns
