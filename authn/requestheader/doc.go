// Package requestheader authenticates by headers that a proxy in front of the server sets, such as the aggregator of
// another API server: X-Remote-User, X-Remote-Uid, X-Remote-Group and X-Remote-Extra-*. The proxy itself shows a client
// certificate of an authority that is only for this purpose; without one, the headers mean nothing.
//
// An API server behind another one's aggregator follows what that one publishes: see Follower.
//
// A request without a certificate or without a user's name has no credentials. A certificate of another authority, or of a
// name that is not allowed, is an error; it need not fail the request, since another authenticator of a union may accept
// it. Everything here is safe for concurrent use.
package requestheader
