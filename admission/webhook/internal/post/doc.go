// Package post is the HTTP between an API server and its webhooks: what requests look like, and what becomes of
// answers. Its errors have the texts of the client that upstream calls webhooks with. It is safe for concurrent use.
package post
