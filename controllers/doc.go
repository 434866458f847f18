// Package controllers is what every controller of a control plane shares: the contract of a
// Controller, the Loop that feeds it keys, and Group, which runs many things side by side. The
// controllers themselves are in the packages below, one each.
//
// A controller is made from the informers it reads, a client it writes with and a recorder. Its
// handlers only enqueue keys; Reconcile looks at the world afresh. A Loop gives a controller its
// queue, its workers and its retries:
//
//	loop := controllers.NewLoop(deployment.New(sources, client, recorder, deployment.Options{}), controllers.Options{})
//	err := controllers.Group(podInformer, deploymentInformer, loop).Run(ctx)
//
// Package controllers/reconciler turns a Controller into a reconciler of controller-runtime
// instead; package controllers/leaderelection runs a Runnable only while this process leads.
//
// Errors of Reconcile are retried, never returned; Run fails only when it cannot start. A Loop
// starts nothing before Run and leaves no goroutine after it. Everything here takes its time from
// the time package, so it is virtual inside a testing/synctest bubble.
package controllers
