// Package controllerstest is an API to test controllers against: it serves this module's kinds from memory, in process,
// with defaults, validation, conflicts, graceful deletion and everything else that the registry does.
//
//	func TestController(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			api := controllerstest.Start(t, controllerstest.Options{})
//			strict := informer.Options{DetectMutations: func(err error) { t.Error(err) }}
//			pods := informer.New(controllerstest.Source[*corev1.Pod](api, controllerstest.Pods()), strict)
//			c := mycontroller.New(pods, api)
//			controllerstest.Go(t, pods, controllers.NewLoop(c, controllers.Options{}))
//			…
//		})
//	}
//
// An API is ready in less than a millisecond and leaves nothing behind after the test. It is a client.Client that can
// be made to fail (Inject) and records requests (Writes); its Sources can be made to lag (Hold, Resume). Node simulates
// scheduler and kubelet. An API has no authorizer and no admission plugins; package cluster is a whole control plane
// for tests that need them.
//
// The objects that a Source returns are shared, as in a cluster in one process. An informer that detects mutations, as
// above, fails the test of a controller that modifies one.
//
// Everything that the server generates is the same in every run: uids and generated names count up, and time is the
// standard library's. All of it works in a testing/synctest bubble.
//
// All types are safe for concurrent use.
package controllerstest
