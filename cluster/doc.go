// Package cluster is the assembly: options in, a running control plane and nodes out, in this process, without sockets.
// A test starts one in milliseconds; many can run side by side, and inside a testing/synctest bubble in virtual time.
//
// Start brings up an API server over storage, RBAC and upstream's admission plugins with upstream's default policy, the
// controllers, the scheduler and simulated nodes, and returns once a pod can be created. Close ends it all and leaves
// no goroutine behind. Callers that want to own the goroutine use New, Run and WaitReady instead.
//
// # Clients and identities
//
// Config connects unmodified client-go and controller-runtime to the cluster, as an administrator; ConfigFor as a User,
// a ServiceAccount, a node or any other authn.Identity, with the permissions that RBAC grants; Anonymous with the
// credentials in the requests themselves, for Options.Authenticators. Every request passes authentication,
// authorization and admission. The components are clients too, each with the identity and role that upstream gives it:
// none is in system:masters. Clients that need a connection of their own, as client-go's for exec, attach and port-forward
// do, get one in this process by Dial.
//
// Handler serves the same API to the outside; apiserver/serving adds TLS. Options.Server and Options.Services configure
// what other processes need to know, and Drain starts the shutdown for them. examples/cluster is a program built that
// way, with certificates from package pki.
//
// controller-runtime needs a scheme with Options.Kinds in it, which Scheme returns. In tests it also needs
// SkipNameValidation, since it requires controller names to be unique per process, and its metrics server turned off.
//
// # Parts that are yours
//
// The components beside the API server, and the stages that every request passes in it, are values with defaults:
// Options.Components, Authenticators, Authorizers and Admission replace DefaultComponents, DefaultAuthenticators,
// DefaultAuthorizers and DefaultAdmission, whose slices callers may filter, change and append to. A Component knows
// nothing about this package: component/remote runs the same one against any API server. A Stage is made from the
// server's parts; Ready makes one from a part that already exists.
//
// Options.Extensions adds parts to the server that not every cluster should link: package customresources below serves
// CustomResourceDefinitions and the kinds that they define. Kinds that come and go while a cluster runs are followed by
// its garbage collector, its quotas and its deletion of namespaces. Package webhooks below has admission webhooks, as kinds
// and plugins, package policies admission policies, package initializers hides objects until others have completed them, and
// package aggregation lets other API servers serve versions of API
// groups. Package resourcemetrics serves what nodes and pods use, package localvolumes provides for claims with
// directories of nodes, package clusterdns resolves names. Packages admissionconfig, authenticationconfig,
// authorizationconfig and auditconfig configure admission plugins, authenticators, authorizers and the audit of requests by
// upstream's files. Package admit tells what a cluster with a given state would make of a request.
//
// # Virtual time
//
// Start the cluster inside synctest.Test and use the standard library's time as always: Sleep returns as soon as every
// other goroutine in the bubble waits, and whatever was due in the meantime has happened. So a test calls
// time.Sleep(6 * time.Minute) and checks the result; it needs no polling, and no margin beyond the time that the
// components themselves take. Keep in mind:
//
//   - Everything that goroutines wait for must be created in the bubble: clients, contexts and channels. Use t.Context,
//     and close the cluster, or let t.Cleanup do so, before the test function returns.
//   - Real network connections, blocking files and processes stop the clock.
//   - Time is virtual, but the scheduling of goroutines is not: the order of two events at the same instant may differ
//     from run to run. With Options.Seed and Options.Settle the same things happen to objects of the same names at the
//     same seconds in each run.
//
// # Simulated nodes
//
// Each node of Options.Nodes runs the kubelet over a runtime that keeps sandboxes, containers and images in memory.
// Nodes.Runtime makes it slow, hang or fail and sets how containers behave: when they become ready, exit or ignore
// being stopped. Node.Stop silences a node, Node.Start brings it back.
//
// Simulated nodes serve what kubelets do: logs, exec, attach, port-forward, the proxy to pods, metrics and statistics, to
// clients in this process and to those of Handler. The API server reaches them in memory; they listen on nothing, and cost
// nothing until somebody asks. simulated.Program scripts what containers write and how they answer; without a script logs are
// empty, and exec and port-forward fail.
//
// # What differs from upstream
//
// Behaviour follows Kubernetes 1.37: names, defaults, validation, messages, timings. Service accounts get tokens by
// TokenRequest; there is no controller for token secrets, and simulated pods mount nothing. DefaultAdmission lists the
// admission plugins, with NodeRestriction on as in upstream's installers, and DefaultComponents the controllers. Leader
// election is off, since there is one of each. Before controllers create something for an owner that may be gone
// although it is in their caches, they ask the server.
//
// # Errors and concurrency
//
// Errors of New and Start wrap ErrOptions, ErrUnknownComponent or those of the storage. After the end, requests through
// the configurations fail with ErrClosed, and those to Handler with 503. A Cluster and its Nodes are safe for
// concurrent use; callers own the objects that clients return.
package cluster
