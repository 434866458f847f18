// Package webhook is upstream's admission plugins MutatingAdmissionWebhook and ValidatingAdmissionWebhook: they
// ask the webhooks that MutatingWebhookConfigurations and ValidatingWebhookConfigurations name.
//
// The package decides which webhooks a request concerns, writes reviews and reads the answers. How a review gets
// to a webhook is up to a [Caller]: package remote calls over TLS, by URL or by service; package inprocess calls
// http.Handlers in the same process. Package handler makes a webhook of an admission plugin; in process, such a one gets
// the request's objects as they are ([Direct]). Compiled match conditions are functions, too ([Options.Compile]): package
// cel makes them. Programs without it do not link CEL; there, a webhook with match conditions fails.
//
// Mutating webhooks are called one after the other, in the order of their configurations' names and, within one,
// in its order. Validating webhooks are called in parallel, and all are waited for.
//
// # Errors
//
// A webhook that refuses a request makes a [*Denial], which carries the Status that the webhook chose. A webhook
// that cannot be called, or whose answer cannot be understood, fails the request with admission.ErrInternal
// or, if its failure policy is Ignore, is passed over; [*CallError] is the cause. Nothing that a webhook does
// affects other requests than those it is called for: answers are bounded in time by the webhook's timeout and
// the request's context, and in size by the Caller.
//
// # Differences from upstream
//
// Answers must be JSON; upstream also reads YAML and protobuf. Of several validating webhooks that refuse,
// the first in order decides the answer, not the fastest.
//
// Everything is safe for concurrent use.
package webhook
