// Package inprocess authenticates components that run in the server's own process.
//
// A component's requests reach the handler by a function call, with a context in which Attach has put the component's
// identity. New trusts exactly that: the key is unexported and a context does not travel over a wire, so no client
// outside the process can forge it. The caller of Attach is trusted with any identity; give components an
// http.RoundTripper or client that already carries theirs.
package inprocess
