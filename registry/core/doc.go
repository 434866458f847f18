// Package core has the kinds of the core API group: namespaces, nodes, pods and their
// bindings, configmaps, secrets, serviceaccounts, services, endpoints and events (which
// events.k8s.io serves too). Their names, defaults and rules are those of Kubernetes 1.37 with
// its default feature gates, and refusals are in its words.
//
// What a service has from a pool of the cluster (cluster IPs, node ports, a health check node
// port) is not handed out here: it stays as the client left it, and empty is allowed. Whoever
// hands it out fills it into the service before these rules judge it.
//
// Service accounts hand out tokens if Options.Tokens has somebody who signs them.
//
// A Kind is data without state, safe for concurrent use. Nothing here fails other than by the
// field errors of a validation.
package core
