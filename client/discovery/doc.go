// Package discovery finds out what a server serves: its groups, versions and resources, by the names that users type.
//
// A [Client] asks the server once and caches the answer on disk in kubectl's directory, per host, so that both share
// it. It asks again after six hours, and when a name is not in the cache. [Client.Mapping] finds the resource of a name
// in the version that the server prefers; [Target] addresses an object of it, for a client.Client:
//
//	mapping, err := d.Mapping(ctx, "deploy")
//	obj, err := c.Get(ctx, discovery.Target(mapping, "default", "web"))
//
// It is built on the discovery client of client-go, available through [Client.Mapper] and [Client.Server]. Servers with
// aggregated discovery get two requests, others two and one for every group and version.
//
// # Errors
//
// A name that the server does not serve is an error with kubectl's text that satisfies meta.IsNoMatchError. Other
// errors are those of the server and the connection. A cache that cannot be read or written is ignored.
//
// # Concurrency
//
// A Client is safe for concurrent use and starts no goroutines that outlive a call.
package discovery
