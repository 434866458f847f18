// Package namespace is upstream's namespace-controller: it deletes everything in a namespace that is being deleted,
// pods first, and then removes the namespace's finalizer. The conditions of the namespace say what is left and why.
//
// Reconcile returns the server's errors, those of one round joined; they are retried at least every minute. A
// Controller starts no goroutines and is safe for concurrent use by the workers of a Loop.
package namespace

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/informer"
)

// Upstream's timings.
const (
	// defaultGrace gives servers time to notice that a namespace is being deleted and to refuse new objects in it.
	defaultGrace = 5 * time.Second
	// finalizerEstimate is how long finalizing objects is expected to take.
	finalizerEstimate = 15 * time.Second
)

// Client is what the controller needs of the server.
//
//nolint:interfacebloat // composed of the narrow ones that it needs
type Client interface {
	client.Getter
	client.Lister
	client.Updater
	client.Deleter
}

// Options of a Controller. The zero value behaves as upstream.
type Options struct {
	// Grace is how long after its deletion a namespace's content is left alone; 0 means 5 s.
	Grace time.Duration
	// Finalizer is the finalizer that this controller removes; empty means "kubernetes".
	Finalizer corev1.FinalizerName
}

// Controller is the namespace-controller. Make one with New.
type Controller struct {
	namespaces *informer.Informer[*corev1.Namespace]
	client     Client
	resources  func(context.Context) ([]schema.GroupVersionResource, error)
	options    Options
}

var (
	_ controllers.Controller = (*Controller)(nil)
	_ controllers.Retrier    = (*Controller)(nil)
)

// New makes the controller. resources returns the namespaced resources whose objects can be deleted; if it also returns
// an error, the list is incomplete.
func New(namespaces *informer.Informer[*corev1.Namespace], c Client, resources func(context.Context) ([]schema.GroupVersionResource, error), o Options) *Controller {
	if o.Grace == 0 {
		o.Grace = defaultGrace
	}
	if o.Finalizer == "" {
		o.Finalizer = corev1.FinalizerKubernetes
	}
	return &Controller{namespaces: namespaces, client: c, resources: resources, options: o}
}

// Name is "namespace-controller".
func (*Controller) Name() string { return "namespace-controller" }

// Watch enqueues namespaces that are being deleted.
func (c *Controller) Watch(q controllers.Queue) []controllers.Synced {
	enqueue := func(ns *corev1.Namespace) {
		if ns.DeletionTimestamp != nil {
			q.AddAfter(controllers.Key{Name: ns.Name}, c.options.Grace)
		}
	}
	c.namespaces.AddHandler(informer.Handler[*corev1.Namespace]{
		Added:   enqueue,
		Updated: func(_, ns *corev1.Namespace) { enqueue(ns) },
	})
	return []controllers.Synced{c.namespaces}
}

func at(name, subresource string) client.Target {
	return client.Target{Resource: corev1.SchemeGroupVersion.WithResource("namespaces"), Name: name, Subresource: subresource}
}

// Retry has a lower maximum than for other controllers: few namespaces are deleted at a time.
func (*Controller) Retry() controllers.Retry { return controllers.Retry{Max: time.Minute} }

// Reconcile deletes the content of a namespace that is being deleted, and finalizes the namespace when it is empty.
func (c *Controller) Reconcile(ctx context.Context, key controllers.Key) (controllers.Result, error) {
	if _, ok := c.namespaces.Get("", key.Name); !ok {
		return controllers.Result{}, nil
	}
	ns, err := c.get(ctx, key.Name)
	if err != nil {
		return controllers.Result{}, ignoreNotFound(err)
	}
	ns, err = c.update(ctx, ns, "status", func(ns *corev1.Namespace) bool {
		if ns.DeletionTimestamp == nil || ns.Status.Phase == corev1.NamespaceTerminating {
			return false
		}
		ns.Status.Phase = corev1.NamespaceTerminating
		return true
	})
	if err != nil {
		return controllers.Result{}, ignoreNotFound(err)
	}
	if ns.DeletionTimestamp == nil || len(ns.Spec.Finalizers) == 0 {
		return controllers.Result{}, nil
	}
	left, errs := c.empty(ctx, ns)
	reported := ns.DeepCopy()
	if report(&reported.Status, left, errs, metav1.Now()) {
		// Conditions are only informative: the work goes on if they cannot be written.
		if got, err := client.As[*corev1.Namespace](c.client.Update(ctx, at(ns.Name, "status"), reported, metav1.UpdateOptions{})); err == nil {
			ns = got
		}
	}
	if all := errs.list(); len(all) > 0 {
		return controllers.Result{}, errors.Join(all...)
	}
	if left.wait > 0 {
		half := int64(left.wait/time.Second)/2 + 1
		return controllers.Result{RequeueAfter: time.Duration(half) * time.Second}, nil
	}
	_, err = c.update(ctx, ns, "finalize", func(ns *corev1.Namespace) bool {
		ns.Spec.Finalizers = slices.DeleteFunc(ns.Spec.Finalizers, func(f corev1.FinalizerName) bool { return f == c.options.Finalizer })
		return true
	})
	return controllers.Result{}, ignoreNotFound(err)
}

func (c *Controller) get(ctx context.Context, name string) (*corev1.Namespace, error) {
	return client.As[*corev1.Namespace](c.client.Get(ctx, at(name, "")))
}

// update changes a namespace if change reports that it has to, and retries after conflicts.
func (c *Controller) update(ctx context.Context, ns *corev1.Namespace, subresource string, change func(*corev1.Namespace) bool) (*corev1.Namespace, error) {
	uid := ns.UID
	for {
		changed := ns.DeepCopy()
		if !change(changed) {
			return ns, nil
		}
		got, err := client.As[*corev1.Namespace](c.client.Update(ctx, at(ns.Name, subresource), changed, metav1.UpdateOptions{}))
		if !apierrors.IsConflict(err) {
			return got, err
		}
		if ns, err = c.get(ctx, ns.Name); err != nil {
			return nil, err
		}
		if ns.UID != uid {
			return nil, fmt.Errorf("namespace %s is another one by now", ns.Name)
		}
	}
}

// remains is what is left in a namespace, and how long to wait for it.
type remains struct {
	wait       time.Duration
	resources  map[schema.GroupVersionResource]int
	finalizers map[string]int
	podsOnly   bool // other resources were not counted, since pods are left
}

// failures are the errors of emptying a namespace.
type failures struct {
	discovery, pods error
	others          []error
}

// content returns the errors of deleting objects.
func (f failures) content() []error {
	if f.pods == nil {
		return f.others
	}
	return append([]error{f.pods}, f.others...)
}

func (f failures) list() []error {
	var all []error
	if f.discovery != nil {
		all = append(all, f.discovery)
	}
	if f.pods != nil {
		all = append(all, fmt.Errorf("failed to delete pods: %w", f.pods))
	}
	return append(all, f.others...)
}

// empty deletes everything in the namespace. Pods come first and the rest only when no pod is left, which keeps objects
// that pods need until then.
func (c *Controller) empty(ctx context.Context, ns *corev1.Namespace) (remains, failures) {
	left := remains{resources: map[schema.GroupVersionResource]int{}, finalizers: map[string]int{}}
	var errs failures
	resources, err := c.resources(ctx)
	errs.discovery = err
	pods := corev1.SchemeGroupVersion.WithResource("pods")
	if slices.Contains(resources, pods) {
		errs.pods = c.emptyOf(ctx, ns, pods, &left)
		if left.resources[pods] > 0 {
			left.podsOnly = true
			return left, errs
		}
	}
	for _, resource := range resources {
		if resource == pods {
			continue
		}
		if err := c.emptyOf(ctx, ns, resource, &left); err != nil {
			errs.others = append(errs.others, err)
		}
	}
	return left, errs
}

// emptyOf deletes the namespace's objects of one resource and counts what is left.
func (c *Controller) emptyOf(ctx context.Context, ns *corev1.Namespace, resource schema.GroupVersionResource, left *remains) error {
	collection := client.Target{Resource: resource, Namespace: ns.Name, Uninitialized: true}
	before, err := c.client.List(ctx, collection, metav1.ListOptions{})
	if err != nil {
		return ignoreUnsupported(err)
	}
	if meta.LenList(before) == 0 {
		return nil
	}
	wait := gracefulEstimate(before)
	if time.Since(ns.DeletionTimestamp.Time) >= wait {
		wait = 0
	}
	if err := c.deleteAll(ctx, collection, before); err != nil {
		return err
	}
	after, err := c.client.List(ctx, collection, metav1.ListOptions{})
	if err != nil {
		return ignoreUnsupported(err)
	}
	n, held := 0, false
	err = meta.EachListItem(after, func(obj runtime.Object) error {
		n++
		m, err := meta.Accessor(obj)
		if err != nil {
			return err
		}
		for _, f := range m.GetFinalizers() {
			left.finalizers[f]++
			held = true
		}
		return nil
	})
	if err != nil || n == 0 {
		return err
	}
	left.resources[resource] = n
	switch {
	case wait > 0:
	case held:
		wait = finalizerEstimate
	default:
		return fmt.Errorf("unexpected items still remain in namespace: %s for gvr: %v", ns.Name, resource)
	}
	left.wait = max(left.wait, wait)
	return nil
}

// deleteAll deletes a collection, or its objects one by one if the server cannot delete collections.
func (c *Controller) deleteAll(ctx context.Context, collection client.Target, list runtime.Object) error {
	background := metav1.DeletePropagationBackground
	options := metav1.DeleteOptions{PropagationPolicy: &background}
	err := c.client.Delete(ctx, collection, options)
	if err == nil || ignoreUnsupported(err) != nil {
		return err
	}
	return meta.EachListItem(list, func(obj runtime.Object) error {
		m, err := meta.Accessor(obj)
		if err != nil {
			return err
		}
		one := collection
		one.Name = m.GetName()
		return ignoreUnsupported(c.client.Delete(ctx, one, options))
	})
}

// gracefulEstimate is how long the pods in a list take to terminate; other objects take no time.
func gracefulEstimate(list runtime.Object) time.Duration {
	pods, ok := list.(*corev1.PodList)
	if !ok {
		return 0
	}
	var longest int64
	for _, pod := range pods.Items {
		if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		if grace := pod.Spec.TerminationGracePeriodSeconds; grace != nil {
			longest = max(longest, *grace)
		}
	}
	return time.Duration(longest) * time.Second
}

// ignoreUnsupported drops the error of a resource that does not support the verb or no longer exists.
func ignoreUnsupported(err error) error {
	if apierrors.IsMethodNotSupported(err) {
		return nil
	}
	return ignoreNotFound(err)
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
