package storageversionmigrator

import (
	"context"
	"fmt"
	"time"

	svmv1 "k8s.io/api/storagemigration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/informer"
)

// Sources is what the controllers read.
type Sources struct {
	Migrations *informer.Informer[*svmv1.StorageVersionMigration]
}

// Client is what the controllers need of the server: to read CustomResourceDefinitions, to list and patch all objects, and
// to update the status of migrations.
//
//nolint:interfacebloat // composed of the narrow ones that it needs
type Client interface {
	client.Getter
	client.Lister
	client.Updater
	client.Patcher
}

// Resource is a resource whose objects can be migrated, in the version in which they are read and written.
type Resource struct {
	schema.GroupVersionResource
	Kind string // of its objects, such as "Deployment"
}

// Find returns a resource as it is served, or false if it is not. An error means that this is not known at the moment.
type Find func(ctx context.Context, gr schema.GroupResource) (Resource, bool, error)

const (
	reasonRunning = "MigrationRunning"
	reasonFailed  = "StorageVersionMigrationFailed"
)

// patience is how long a new migration's resource may be unknown before the migration fails.
const patience = time.Minute

func young(m *svmv1.StorageVersionMigration) bool {
	return m.CreationTimestamp.Add(patience).After(time.Now())
}

func is(m *svmv1.StorageVersionMigration, condition svmv1.MigrationConditionType) bool {
	return meta.IsStatusConditionTrue(m.Status.Conditions, string(condition))
}

// ended reports whether a migration has succeeded or failed.
func ended(m *svmv1.StorageVersionMigration) bool {
	return is(m, svmv1.MigrationSucceeded) || is(m, svmv1.MigrationFailed)
}

// set sets a condition to true, and reports whether that changed it.
func set(m *svmv1.StorageVersionMigration, condition svmv1.MigrationConditionType, reason, message string) bool {
	return meta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{
		Type: string(condition), Status: metav1.ConditionTrue, Reason: reason, Message: message,
	})
}

// write writes the status of a migration.
func write(ctx context.Context, c client.Updater, m *svmv1.StorageVersionMigration) error {
	at := client.Target{Resource: svmv1.SchemeGroupVersion.WithResource("storageversionmigrations"), Name: m.Name, Subresource: "status"}
	if _, err := c.Update(ctx, at, m, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("update the status of StorageVersionMigration %s: %w", m.Name, err)
	}
	return nil
}

func groupResource(m *svmv1.StorageVersionMigration) schema.GroupResource {
	return schema.GroupResource{Group: m.Spec.Resource.Group, Resource: m.Spec.Resource.Resource}
}

// watch enqueues the keys of new and changed migrations.
func (in Sources) watch(q controllers.Queue, key func(*svmv1.StorageVersionMigration) controllers.Key, deleted bool) []controllers.Synced {
	add := func(m *svmv1.StorageVersionMigration) { q.Add(key(m)) }
	h := informer.Handler[*svmv1.StorageVersionMigration]{Added: add, Updated: func(_, m *svmv1.StorageVersionMigration) { add(m) }}
	if deleted {
		h.Deleted = add
	}
	in.Migrations.AddHandler(h)
	return []controllers.Synced{in.Migrations}
}

func byName(m *svmv1.StorageVersionMigration) controllers.Key { return controllers.Key{Name: m.Name} }
