package customresourcedefinition

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/keelson-dev/keelson/client"
)

const (
	// look is how often to look whether all objects are gone.
	look = 5 * time.Second
	// patience is how long to look until the status says that objects remain.
	patience = time.Minute
)

func isUnservable(err error) bool { return errors.Is(err, ErrUnservable) }

// overlaps reports whether the objects of a kind are stored where upstream stores its own objects.
func overlaps(crd *apiextensionsv1.CustomResourceDefinition) bool {
	switch (schema.GroupResource{Group: crd.Spec.Group, Resource: crd.Spec.Names.Plural}) {
	case schema.GroupResource{Group: "apiregistration.k8s.io", Resource: "apiservices"},
		schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}:
		return true
	}
	return false
}

// finalize deletes the objects of a definition that is being deleted, and then removes the finalizer. It returns when
// to look again, if objects remain. serving is why the kind is not served, if it is not.
func (c *Controller) finalize(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition, serving error) (time.Duration, error) {
	if !slices.Contains(crd.Finalizers, apiextensionsv1.CustomResourceCleanupFinalizer) {
		return 0, nil
	}
	crd, err := c.report(ctx, crd, terminating(apiextensionsv1.ConditionTrue, "InstanceDeletionInProgress", "CustomResource deletion is in progress"))
	if err != nil {
		return 0, err
	}
	outcome := terminating(apiextensionsv1.ConditionFalse, "NeverEstablished", "resource was never established")
	switch {
	case overlaps(crd) || errors.Is(serving, ErrBuiltIn):
		outcome = terminating(apiextensionsv1.ConditionFalse, "OverlappingBuiltInResource", "instances overlap with built-in resources in storage")
	case isUnservable(serving), established(crd):
		again, failed, err := c.empty(ctx, crd, serving)
		if err != nil {
			if _, told := c.report(ctx, crd, failed); told != nil && !errors.Is(told, errOvertaken) {
				err = errors.Join(err, told)
			}
			return 0, err
		}
		if again > 0 {
			return again, nil
		}
		outcome = terminating(apiextensionsv1.ConditionFalse, "InstanceDeletionCompleted", "removed all instances")
	}
	next := writable(crd)
	setCondition(next, outcome)
	apihelpers.CRDRemoveFinalizer(next, apiextensionsv1.CustomResourceCleanupFinalizer)
	if _, err := c.write(ctx, crd, next); err != nil {
		return 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.emptying, crd.UID)
	delete(c.judged, crd.UID)
	return 0, nil
}

// established reports whether a definition may have objects: it is established, or was until it could not be served.
func established(crd *apiextensionsv1.CustomResourceDefinition) bool {
	c := apihelpers.FindCRDCondition(crd, apiextensionsv1.Established)
	return c != nil && (c.Status == apiextensionsv1.ConditionTrue || c.Reason == "Unservable")
}

// report writes a condition.
func (c *Controller) report(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition, condition apiextensionsv1.CustomResourceDefinitionCondition) (*apiextensionsv1.CustomResourceDefinition, error) {
	next := writable(crd)
	setCondition(next, condition)
	return c.write(ctx, crd, next)
}

// empty deletes all objects of a definition. It returns when to look again if some remain; with an error it returns the
// condition that tells it.
func (c *Controller) empty(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition, serving error) (time.Duration, apiextensionsv1.CustomResourceDefinitionCondition, error) {
	fail := func(reason, format string, err error) (time.Duration, apiextensionsv1.CustomResourceDefinitionCondition, error) {
		return 0, terminating(apiextensionsv1.ConditionTrue, reason, format, err), err
	}
	if serving != nil {
		err := fmt.Errorf("unable to find a custom resource client for %s.%s: %w", crd.Status.AcceptedNames.Plural, crd.Spec.Group, serving)
		return fail("InstanceDeletionFailed", "could not list instances: %v", err)
	}
	all := client.Target{Resource: schema.GroupVersionResource{
		Group: crd.Spec.Group, Version: readable(crd), Resource: crd.Spec.Names.Plural,
	}}
	found, err := c.namespaces(ctx, all)
	if err != nil {
		return fail("InstanceDeletionFailed", "could not list instances: %v", err)
	}
	var failures []error
	for _, namespace := range found {
		in := all
		in.Namespace = namespace
		if err := c.instances.Delete(ctx, in, metav1.DeleteOptions{}); err != nil {
			failures = append(failures, err)
		}
	}
	if err := utilerrors.NewAggregate(failures); err != nil {
		return fail("InstanceDeletionFailed", "could not issue all deletes: %v", err)
	}
	found, err = c.namespaces(ctx, all)
	if err == nil && len(found) > 0 {
		if again := c.wait(crd); again > 0 {
			return again, apiextensionsv1.CustomResourceDefinitionCondition{}, nil
		}
		err = context.DeadlineExceeded
	}
	if err != nil {
		return fail("InstanceDeletionCheck", "could not confirm zero CustomResources remaining: %v", err)
	}
	return 0, apiextensionsv1.CustomResourceDefinitionCondition{}, nil
}

// readable returns a version in which the objects of a definition can be deleted: one that is served or, if none is,
// the stored one.
func readable(crd *apiextensionsv1.CustomResourceDefinition) string {
	version, served := "", false
	for _, v := range crd.Spec.Versions {
		if v.Served && !served || v.Storage && (v.Served || !served) {
			version, served = v.Name, v.Served
		}
	}
	return version
}

// namespaces returns the namespaces that have objects; of a cluster-scoped kind with objects, it returns "".
func (c *Controller) namespaces(ctx context.Context, at client.Target) ([]string, error) {
	list, err := c.instances.List(ctx, at, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var all []string
	err = meta.EachListItem(list, func(obj runtime.Object) error {
		m, err := meta.Accessor(obj)
		if err == nil && !slices.Contains(all, m.GetNamespace()) {
			all = append(all, m.GetNamespace())
		}
		return err
	})
	slices.Sort(all)
	return all, err
}

// wait returns when to look again whether a definition's objects are gone; 0 means that it took too long, and that a new
// wait begins.
func (c *Controller) wait(crd *apiextensionsv1.CustomResourceDefinition) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	since, ok := c.emptying[crd.UID]
	if !ok {
		since = time.Now()
		c.emptying[crd.UID] = since
	}
	if time.Since(since) < patience {
		return look
	}
	delete(c.emptying, crd.UID)
	return 0
}
