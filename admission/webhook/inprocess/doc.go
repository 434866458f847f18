// Package inprocess calls admission webhooks that are http.Handlers in the same process. A handler gets the request that
// a webhook would get over the network; services and URLs without a handler go to another Caller.
// One that is a webhook.Reviewer, as those of package handler, gets it without JSON.
//
// A handler that panics, writes more than [Options.MaxAnswer] bytes or does not return in time fails the call. One that
// has not returned when the call's context ends is left behind, as an HTTP server's would be; it should watch
// its request's context. A Caller is safe for concurrent use.
package inprocess
