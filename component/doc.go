// Package component is what a control plane is assembled from: controllers, a scheduler, or anything else that works
// with an API server, as values.
//
// A Component says what it is called and whom it acts as, and how it is made of Parts: a client, a recorder, shared
// informers, and what is known of the cluster. It does not know where it runs. Package cluster runs components beside
// an API server in one process; package component/remote runs them against any API server that a kubeconfig leads to.
//
// Sets of components are slices, to be filtered, replaced in and appended to. Package component/controllermanager has
// the controllers of kube-controller-manager, package component/kubescheduler the scheduler.
//
// # Informers
//
// Components of one process share their caches. Informer returns the one for a resource and its Go type:
//
//	pods := component.Informer[*corev1.Pod](parts.Informers, corev1.SchemeGroupVersion.WithResource("pods"))
//
// The first resource that cannot be read is kept as the error of Informers.Err, so that a constructor asks for all it
// reads and looks at the error once.
package component
