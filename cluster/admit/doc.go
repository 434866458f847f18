// Package admit tells what an API server would make of a request, without serving one: an object in YAML or Go is decoded,
// defaulted, mutated, validated, judged by policies and webhooks and checked against quotas, by the code that serves requests.
// The result has the final object, what each step changed, the warnings, the audit annotations, the cost of expressions in CEL,
// and for a refusal the phase, the plugin and its rule.
//
// A World is a cluster whose state is given as objects: namespaces, limit ranges, quotas, policies with their bindings and
// parameters, configurations of webhooks, definitions of custom resources and what else plugins read. It has the plugins of
// cluster.DefaultAdmission, those of policies and of webhooks, or any others. Webhooks may be http.Handlers in this process.
//
// Requests to a world leave its state as it is, unless they ask to be kept, and can be made concurrently. They reach plugins in
// the form of requests that will be stored; only those that change the state themselves (ResourceQuota, NamespaceAutoProvision,
// EventRateLimit) see a dry run, in which quotas are checked and not charged.
//
// A Suite has cases in a YAML file, with what is wanted of them; package admittest runs such files in tests and rewrites them, and
// the program examples/admit does so for people who write no Go. A single plugin is tested with admission/admissiontest, which
// links none of this.
//
// # Differences from a server
//
// No controllers run, but for the one that serves custom resources. So that pods are not refused for what controllers would
// make, every namespace has a ServiceAccount default, and a ResourceQuota without a status the usage of the objects in the state.
// The user of a request need not be authorized, unless Options.Authorize says so: what plugins and expressions ask about the user is
// answered by the roles and bindings in the state. The costs of expressions are those of policies, not those of the rules of custom
// resources and of the conditions of webhooks.
//
// # Errors
//
// A refusal is a result. Errors are about what is wrong with the state, the options or the request itself.
package admit
