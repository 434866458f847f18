// Package discovery knows what a server serves: its groups, versions and resources, by the names
// that people type.
//
// A [Client] asks the server once and keeps the answer on disk where kubectl keeps it, for every
// host apart, so that both share it. It is asked again when six hours have passed, and when a name
// is not found that the kept answer does not know. [Client.Mapping] finds the resource that a name
// stands for in the version that the server prefers; [Target] addresses an object of it, for a
// client.Client:
//
//	mapping, err := d.Mapping(ctx, "deploy")
//	obj, err := c.Get(ctx, discovery.Target(mapping, "default", "web"))
//
// It is built on the discovery client of client-go, whose parts [Client.Mapper] and
// [Client.Server] hand out. Servers with aggregated discovery are asked two questions, others two
// and one for every group and version.
//
// # Errors
//
// A name that the server does not serve is an error in kubectl's words for which
// meta.IsNoMatchError holds. Others are those of the server and of the way to it. A cache that
// cannot be read or written is passed over.
//
// # Concurrency
//
// A Client is safe for concurrent use and starts no goroutines that outlive a call.
package discovery
