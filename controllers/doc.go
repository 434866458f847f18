// Package controllers has what all controllers of a control plane share: the contract, Controller, and the Loop that
// feeds it keys. Package lifecycle runs many side by side.
//
// The controllers themselves are in the packages below, one each, under upstream's names: apiservice, attachdetach,
// bootstrapsigner, clusterroleaggregation, clustertrustbundlepublisher, cronjob, csrapproving, csrcleaner, csrsigning,
// customresourcedefinition, daemonset, deployment, devicetainteviction, disruption, endpoints, endpointslice, endpointslicemirroring,
// ephemeral, garbagecollector, horizontalpodautoscaler, job, namespace, nodeipam, nodelifecycle, podcertificaterequestcleaner,
// legacyserviceaccounttokencleaner, podgc, pvbinder, pvcprotection, pvprotection, replicaset, replicationcontroller, resourceclaim, resourcequota, rootca,
// serviceaccount, serviceaccounttoken, servicecidrs, statefulset, storageversionmigrator, tainteviction, tokencleaner, ttl, ttlafterfinished,
// vacprotection, validatingadmissionpolicystatus, volumeexpand. Upstream has no
// localprovisioner, which makes volumes of directories, and no loadbalancer, which gives services addresses of a range.
//
// A controller is built from the informers it reads, a client for its writes and a recorder. Its handlers only enqueue
// keys; Reconcile reads the current state each time. A Loop gives a controller its queue, its workers and its retries:
//
//	loop := controllers.NewLoop(deployment.New(sources, client, recorder, deployment.Options{}), controllers.Options{})
//	err := lifecycle.Group(podInformer, deploymentInformer, loop).Run(ctx)
//
// Package controllers/reconciler turns a Controller into a reconciler of controller-runtime instead; package
// controllers/leaderelection runs what may only run while this process leads. The packages that several controllers
// share are also for your own: ownership finds and claims the dependents of an object, expectations keeps a controller
// from acting twice on a stale cache, and controllerstest is the API to test a controller against.
//
// Errors of Reconcile are retried, never returned; Run fails only if it cannot start. A Loop starts nothing before Run
// and leaves no goroutine behind. Everything here uses the time package, so time is virtual inside a testing/synctest
// bubble.
package controllers
