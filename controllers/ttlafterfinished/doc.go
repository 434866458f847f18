// Package ttlafterfinished deletes finished jobs once the time to live of their spec has passed, together with their pods,
// like the ttl-after-finished-controller of kube-controller-manager.
//
// The time counts from the condition that says that the job has ended. A job is read from the server before it is
// deleted: its time to live may have been extended. Errors are those of the client; a Controller runs in a
// controllers.Loop, with any number of workers.
package ttlafterfinished
