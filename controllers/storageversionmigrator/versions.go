package storageversionmigrator

import (
	"context"
	"errors"
	"fmt"

	svmv1 "k8s.io/api/storagemigration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
)

// errUnknown is the error of a resource that may be served soon.
var errUnknown = errors.New("resource does not exist in our rest mapper, requeuing to attempt again")

// Versions is upstream's resource-version-controller: it notes in the status of a migration that is running which objects have
// to be written, by the newest resource version. Make one with NewVersions.
type Versions struct {
	in     Sources
	client Client
	find   Find
}

var _ controllers.Controller = (*Versions)(nil)

// NewVersions makes the controller.
func NewVersions(in Sources, c Client, find Find) *Versions {
	return &Versions{in: in, client: c, find: find}
}

// Name is "resource-version-controller".
func (*Versions) Name() string { return "resource-version-controller" }

// Watch implements controllers.Controller.
func (v *Versions) Watch(q controllers.Queue) []controllers.Synced {
	return v.in.watch(q, byName, false)
}

// Reconcile implements controllers.Controller.
func (v *Versions) Reconcile(ctx context.Context, key controllers.Key) (controllers.Result, error) {
	m, ok := v.in.Migrations.Get("", key.Name)
	if !ok || !is(m, svmv1.MigrationRunning) || ended(m) || m.Status.ResourceVersion != "" {
		return controllers.Result{}, nil
	}
	m = m.DeepCopy()
	resource, ok, err := v.find(ctx, groupResource(m))
	if err != nil {
		return controllers.Result{}, err
	}
	if !ok {
		if young(m) {
			return controllers.Result{}, errUnknown
		}
		return controllers.Result{}, v.fail(ctx, m, "resource does not exist in discovery")
	}
	version, err := v.newest(ctx, resource)
	if err != nil {
		return controllers.Result{}, err
	}
	if _, err := resourceversion.CompareResourceVersion(version, version); err != nil {
		return controllers.Result{}, v.fail(ctx, m, fmt.Sprintf("latest resourceVersion for %s is not valid: %v", resource.GroupVersionResource.String(), err))
	}
	m.Status.ResourceVersion = version
	return controllers.Result{}, write(ctx, v.client, m)
}

func (v *Versions) fail(ctx context.Context, m *svmv1.StorageVersionMigration, message string) error {
	set(m, svmv1.MigrationFailed, reasonFailed, message)
	return write(ctx, v.client, m)
}

// newest returns the resource version of a list of the resource.
func (v *Versions) newest(ctx context.Context, r Resource) (string, error) {
	list, err := v.client.List(ctx, client.Target{Resource: r.GroupVersionResource}, metav1.ListOptions{Limit: 1})
	if err == nil {
		var l metav1.ListInterface
		if l, err = meta.ListAccessor(list); err == nil {
			return l.GetResourceVersion(), nil
		}
	}
	return "", fmt.Errorf("error getting latest resourceVersion for %s: %w", r.GroupVersionResource.String(), err)
}
