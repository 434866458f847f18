package storageversionmigrator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	svmv1 "k8s.io/api/storagemigration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
)

// name is that of the controller, and of the owner of what it patches.
const name = "storage-version-migrator-controller"

// pageSize is how many objects are listed at once.
const pageSize = 500

// Controller is the storage-version-migrator-controller: it writes the objects of migrations that are running. Make one with New.
type Controller struct {
	in     Sources
	client Client
	find   Find
}

var _ controllers.Controller = (*Controller)(nil)

// New makes the controller.
func New(in Sources, c Client, find Find) *Controller {
	return &Controller{in: in, client: c, find: find}
}

// Name is "storage-version-migrator-controller".
func (*Controller) Name() string { return name }

// Watch implements controllers.Controller.
func (c *Controller) Watch(q controllers.Queue) []controllers.Synced {
	return c.in.watch(q, byName, false)
}

// Reconcile implements controllers.Controller.
func (c *Controller) Reconcile(ctx context.Context, key controllers.Key) (controllers.Result, error) {
	m, ok := c.in.Migrations.Get("", key.Name)
	if !ok || ended(m) || m.Status.ResourceVersion == "" {
		return controllers.Result{}, nil
	}
	err := c.migrate(ctx, m.DeepCopy())
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		return controllers.Result{RequeueAfter: max(time.Duration(seconds)*time.Second, time.Second)}, nil
	}
	return controllers.Result{}, err
}

// migrate writes the objects of a migration.
func (c *Controller) migrate(ctx context.Context, m *svmv1.StorageVersionMigration) error {
	r, ok, err := c.find(ctx, groupResource(m))
	if err != nil {
		return err
	}
	if !ok {
		if young(m) {
			return errUnknown
		}
		return c.fail(ctx, m, errors.New("unable to obtain GVR from discovery"))
	}
	all, total, err := c.candidates(ctx, r, m.Status.ResourceVersion)
	if malformed := (*malformedError)(nil); errors.As(err, &malformed) {
		return c.fail(ctx, m, malformed.error)
	}
	if err != nil {
		return err
	}
	for i, obj := range all {
		err := c.touch(ctx, r, obj)
		left := len(all) - i
		switch {
		case err == nil, apierrors.IsConflict(err), apierrors.IsNotFound(err):
			// Written by now, by us or somebody else, or gone.
		case retriable(err):
			if set(m, svmv1.MigrationRunning, reasonRunning, running(left, total, err)) {
				_ = write(ctx, c.client, m) // informative only
			}
			return err
		default:
			set(m, svmv1.MigrationRunning, reasonRunning, running(left, total, nil))
			set(m, svmv1.MigrationFailed, reasonFailed, fmt.Sprintf("%d/%d not yet migrated. %s", left, total, unhandled(err)))
			return write(ctx, c.client, m)
		}
	}
	set(m, svmv1.MigrationRunning, reasonRunning, running(0, total, nil))
	set(m, svmv1.MigrationSucceeded, "StorageVersionMigrationSucceeded", "Migration completed")
	return write(ctx, c.client, m)
}

// fail ends a migration.
func (c *Controller) fail(ctx context.Context, m *svmv1.StorageVersionMigration, err error) error {
	set(m, svmv1.MigrationFailed, reasonFailed, unhandled(err))
	return write(ctx, c.client, m)
}

func unhandled(err error) string {
	return fmt.Sprintf("migration encountered unhandled error: %s", err)
}

// running is the message of a migration that is running.
func running(left, total int, err error) string {
	text := "The migration is running"
	switch {
	case total > 0 && left > 0:
		text += fmt.Sprintf(", %d/%d objects not yet migrated", left, total)
	case total > 0:
		text += fmt.Sprintf(", %d objects verified migrated", total)
	}
	if err != nil {
		text += fmt.Sprintf("; transient error: %s", err)
	}
	return text
}

// object is one to write, at a resource version.
type object struct{ namespace, name, version string }

// malformedError is the error of resource versions that cannot be compared.
type malformedError struct{ error }

// candidates returns the objects that were last written at or before a resource version, and how many objects there are.
func (c *Controller) candidates(ctx context.Context, r Resource, upTo string) (all []object, total int, err error) {
	page := metav1.ListOptions{Limit: pageSize}
	for {
		list, err := c.client.List(ctx, client.Target{Resource: r.GroupVersionResource}, page)
		if err != nil {
			return nil, 0, fmt.Errorf("list %s: %w", r.GroupResource(), err)
		}
		err = meta.EachListItem(list, func(item runtime.Object) error {
			obj, err := meta.Accessor(item)
			if err != nil {
				return &malformedError{err}
			}
			total++
			order, err := resourceversion.CompareResourceVersion(obj.GetResourceVersion(), upTo)
			if err != nil {
				return &malformedError{err}
			}
			if order <= 0 {
				all = append(all, object{obj.GetNamespace(), obj.GetName(), obj.GetResourceVersion()})
			}
			return nil
		})
		if err != nil {
			return nil, 0, err
		}
		l, err := meta.ListAccessor(list)
		if err != nil {
			return nil, 0, err
		}
		if page.Continue = l.GetContinue(); page.Continue == "" {
			return all, total, nil
		}
	}
}

// touch writes an object as it is, unless it has been written since it was listed.
func (c *Controller) touch(ctx context.Context, r Resource, obj object) error {
	version, kind := r.GroupVersion().WithKind(r.Kind).ToAPIVersionAndKind()
	data, err := json.Marshal(map[string]any{
		"apiVersion": version, "kind": kind, "metadata": map[string]string{"resourceVersion": obj.version},
	})
	if err != nil {
		return err
	}
	at := client.Target{Resource: r.GroupVersionResource, Namespace: obj.namespace, Name: obj.name}
	_, err = c.client.Patch(ctx, at, client.Patch{Type: types.MergePatchType, Data: data}, metav1.PatchOptions{FieldManager: name})
	return err
}

// retriable reports whether a request may succeed later.
func retriable(err error) bool {
	return utilnet.IsConnectionReset(err) || utilnet.IsHTTP2ConnectionLost(err) || utilnet.IsProbableEOF(err) ||
		apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) ||
		apierrors.IsInternalError(err) || apierrors.IsTimeout(err)
}
