// Package controllers is what every controller of a control plane shares: the contract of a
// Controller, and the Loop that feeds it keys. The controllers themselves are in the packages below,
// one each; package lifecycle runs many side by side.
//
// A controller is made from the informers it reads, a client it writes with and a recorder. Its
// handlers only enqueue keys; Reconcile looks at the world afresh. A Loop gives a controller its
// queue, its workers and its retries:
//
//	loop := controllers.NewLoop(deployment.New(sources, client, recorder, deployment.Options{}), controllers.Options{})
//	err := lifecycle.Group(podInformer, deploymentInformer, loop).Run(ctx)
//
// Package controllers/reconciler turns a Controller into a reconciler of controller-runtime
// instead; package controllers/leaderelection runs what has a life only while this process leads.
//
// Errors of Reconcile are retried, never returned; Run fails only when it cannot start. A Loop
// starts nothing before Run and leaves no goroutine after it. Everything here takes its time from
// the time package, so it is virtual inside a testing/synctest bubble.
package controllers
