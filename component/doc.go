// Package component defines what a control plane is assembled from: controllers, a scheduler, or anything else that
// uses an API server, as values.
//
// A Component has a name, an identity, and a constructor that makes it from Parts: a client, a recorder, shared
// informers, and what is known about the cluster. It does not know where it runs. Package cluster runs components
// beside an API server in one process; package component/remote runs them against any API server.
//
// Sets of components are slices, which callers may filter, change and append to. Package component/controllermanager
// has the controllers of kube-controller-manager, package component/kubescheduler the scheduler.
//
// # Informers
//
// Components of one process share their caches. Informer returns the one for a resource and its Go type:
//
//	pods := component.Informer[*corev1.Pod](parts.Informers, corev1.SchemeGroupVersion.WithResource("pods"))
//
// Informers.Err returns the error for the first resource that cannot be read, so a constructor can request all its
// informers and check for errors once.
package component
