// Package job runs pods until enough of them have succeeded, like the job-controller of kube-controller-manager.
//
// A pod counts once: it has the finalizer batch.kubernetes.io/job-tracking, and remains until the status of its job
// counts it. A job's status first lists the UIDs of pods that have ended, then the finalizers go, then the counters
// rise; whatever fails in between, nothing is lost or counted twice. In indexed jobs the indexes that have succeeded take the
// place of UIDs.
//
// A job fails when more pods have failed than its backoffLimit allows, at its deadline, when its podFailurePolicy says
// so, or when too many indexes have failed; it succeeds with its completions, or earlier by its successPolicy. The
// condition that announces the end (FailureTarget, SuccessCriteriaMet) comes first, and the end itself (Failed,
// Complete) when all pods have ended. Failed pods are replaced after a delay that doubles from 10 s to 10 minutes.
//
// The cache may be stale: a job is left alone until the cache shows the last writes to it and to its pods, and pods that
// are being created or deleted are waited for, for at most five minutes. Orphans removes the finalizer from pods whose
// job has gone or has finished.
//
// Controller and Orphans run in a controllers.Loop each, with any number of workers. There are no metrics, and the
// alpha feature WorkloadWithJob is left out.
package job
