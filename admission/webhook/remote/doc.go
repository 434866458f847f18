// Package remote calls admission webhooks over TLS: by URL, or by service, whose address a [Resolver] finds. The
// webhook's certificate must be valid for the URL's host or for the service's name, "hook.namespace.svc", under
// the configuration's caBundle or, without one, under the system's roots.
//
// Connections are kept and shared by webhooks of the same address and certificates. Answers are limited
// ([Options.MaxAnswer]).
//
// # Differences from upstream
//
// A redirect is not followed: it is a failure like any answer that is none. The server shows webhooks no credentials of
// its own, and uses no proxy; both are what upstream does unless it is configured otherwise, or finds a proxy in
// its environment.
//
// Errors have upstream's texts and say what kept the webhook from answering. A Caller is safe for concurrent use; Close
// drops its idle connections.
package remote
