// Package cluster is the assembly: options in, a running control plane and nodes out, in this
// process, without sockets. A test starts one in milliseconds, many beside each other, and
// inside a testing/synctest bubble in virtual time.
//
// Start brings up an API server over storage, RBAC and upstream's admission plugins with
// upstream's default policy, the controllers, the scheduler and simulated nodes, and returns
// once a pod can be created. Close ends it all and leaves no goroutine behind. Who owns the
// goroutine uses New, Run and WaitReady instead.
//
// # Clients and identities
//
// Config leads client-go and controller-runtime to the cluster as they are, as an administrator;
// ConfigFor as a User, a ServiceAccount, a node or whoever an authn.Identity says, with what RBAC
// lets them do; Anonymous with the credentials of the requests themselves, for
// Options.Authenticators. Every request passes authentication, authorization and admission. The
// components are such clients too, under the identity and the role that upstream gives each:
// none is of system:masters. Exec, attach and port-forward are not served.
//
// Handler serves the same API to the outside, as apiserver/serving does with TLS; Options.Server
// and Options.Services say what others need to know, and Drain begins the end for them.
// examples/cluster is a program made that way, with certificates from package pki.
//
// controller-runtime wants a scheme with Options.Kinds in it, which is Scheme, and in tests
// SkipNameValidation, since it counts controller names per process, and its metrics server off.
//
// # Parts that are yours
//
// What runs beside the API server, and what every request passes in it, are values with defaults:
// Options.Components, Authenticators, Authorizers and Admission take the place of DefaultComponents,
// DefaultAuthenticators, DefaultAuthorizers and DefaultAdmission, which are slices to filter, replace
// in and append to. A Component knows nothing of this package: component/remote runs the same one
// against any API server. A Stage is made of the server's parts; Ready is one of a part that is
// there already.
//
// # Virtual time
//
// Start the cluster inside synctest.Test and use the standard library's time as always: Sleep
// returns as soon as everybody else in the bubble waits, and what was due in the meantime has
// happened. So a test says time.Sleep(6 * time.Minute) and looks; polling is not needed, and no
// margin either beyond what the components themselves take. To be kept in mind:
//
//   - All that waits must be born in the bubble: clients, contexts and channels. Use t.Context,
//     and close the cluster, or let t.Cleanup do so, before the test's function returns.
//   - Real network connections, files that block and processes stop the clock.
//   - Time is virtual, the scheduling of goroutines is not: which of two things at one instant
//     comes first may differ from run to run. With Options.Seed and Options.Settle the same things
//     happen to objects of the same names at the same seconds in each run.
//
// # Simulated nodes
//
// Each node of Options.Nodes runs the kubelet over a runtime that keeps sandboxes, containers and
// images in memory. Nodes.Runtime makes it slow, hang or fail and says how containers behave: when
// they are ready, exit or ignore being stopped. Node.Stop silences a node, Node.Start brings it
// back.
//
// # What differs from upstream
//
// Behaviour follows Kubernetes 1.37: names, defaults, validation, messages, timings. Service accounts
// get tokens by TokenRequest; there is no controller of token secrets, and simulated pods mount
// nothing. Of the admission plugins it has what DefaultAdmission says, with NodeRestriction on as
// upstream's installers have it, of the controllers what DefaultComponents says. Leader election is
// off, for there is one of each. Controllers ask the server before they make something for an owner that
// their caches might not know to be gone.
//
// # Errors and concurrency
//
// Errors of New and Start wrap ErrOptions, ErrUnknownComponent or those of the storage. After the
// end, requests through the configurations fail with ErrClosed, and those to Handler with 503. A
// Cluster and its Nodes are safe for concurrent use; objects that clients get are the caller's own.
package cluster
