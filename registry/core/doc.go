// Package core has the kinds of the core API group: namespaces, nodes, pods and their bindings, podtemplates,
// replicationcontrollers, configmaps, secrets, serviceaccounts, resourcequotas, services, endpoints and events (which events.k8s.io
// serves, too). Their names, defaults, rules and messages are those of Kubernetes 1.37 with its default feature
// gates.
//
// Services get cluster IPs, node ports and health check node ports only if Options.Services has pools for them.
// Service accounts have tokens only if Options.Tokens has an issuer.
//
// A Kind is data without state, safe for concurrent use.
package core
