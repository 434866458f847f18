// Package cronjob starts the jobs of CronJobs, like the cronjob-controller of kube-controller-manager.
//
// When a CronJob is due, in its time zone, the controller creates a job of its template; the name has the minute at which the
// job was due, so that nothing is started twice. Of several missed starts, only the last is made up for, and none that is
// further back than the starting deadline. If a job is still active, the concurrency policy says whether the next one runs
// beside it, not at all, or instead. The status lists the active jobs, with the times of the last start and of the last success.
// Finished jobs beyond the limits of the history are deleted. Jobs are never adopted.
//
// A Controller runs in a controllers.Loop, with any number of workers. A CronJob whose schedule or time zone is invalid is
// reported by an event and left alone until it changes; other errors are retried.
package cronjob
