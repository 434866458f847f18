package storageversionmigrator

import (
	"cmp"
	"context"
	"strings"

	svmv1 "k8s.io/api/storagemigration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/controllers"
)

// Runner is upstream's migration-runner-controller: it starts migrations, one at a time for each resource, and concludes them.
// Make one with NewRunner.
type Runner struct {
	in     Sources
	client Client
}

var _ controllers.Controller = (*Runner)(nil)

// NewRunner makes the controller.
func NewRunner(in Sources, c Client) *Runner { return &Runner{in: in, client: c} }

// Name is "migration-runner-controller".
func (*Runner) Name() string { return fieldManager }

// Watch enqueues the resources of migrations: a key has the group as its namespace.
func (r *Runner) Watch(q controllers.Queue) []controllers.Synced {
	return r.in.watch(q, func(m *svmv1.StorageVersionMigration) controllers.Key {
		return controllers.Key{Namespace: m.Spec.Resource.Group, Name: m.Spec.Resource.Resource}
	}, true)
}

// Reconcile concludes the migrations of a resource that have ended, and starts the next.
func (r *Runner) Reconcile(ctx context.Context, key controllers.Key) (controllers.Result, error) {
	var all []*svmv1.StorageVersionMigration
	for _, m := range r.in.Migrations.List("") {
		if m.Spec.Resource.Group == key.Namespace && m.Spec.Resource.Resource == key.Name {
			all = append(all, m)
		}
	}
	done, next := sort(all)
	for _, m := range done {
		if err := r.conclude(ctx, m.DeepCopy()); err != nil {
			return controllers.Result{}, err
		}
	}
	if next == nil {
		return controllers.Result{}, nil
	}
	return controllers.Result{}, r.start(ctx, next.DeepCopy())
}

// sort returns the migrations of a resource that have ended and are to be concluded, and the one to start: the oldest, if
// none is running.
func sort(all []*svmv1.StorageVersionMigration) (done []*svmv1.StorageVersionMigration, next *svmv1.StorageVersionMigration) {
	running := false
	for _, m := range all {
		switch {
		case is(m, svmv1.MigrationRunning) && ended(m):
			done = append(done, m)
		case is(m, svmv1.MigrationRunning):
			running = true
		case !ended(m) && (next == nil || older(m, next)):
			next = m
		}
	}
	if running {
		next = nil
	}
	return done, next
}

func older(a, b *svmv1.StorageVersionMigration) bool {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name)) < 0
}

// start marks a migration as running.
func (r *Runner) start(ctx context.Context, m *svmv1.StorageVersionMigration) error {
	d, ok, err := r.definition(ctx, m)
	if err != nil {
		return err
	}
	if ok {
		if err := r.apply(ctx, d, mark{metav1.ConditionTrue, reasonRunning, "Migration " + m.Name + " is running", nil}); err != nil {
			return err
		}
	}
	if meta.FindStatusCondition(m.Status.Conditions, string(svmv1.MigrationRunning)) != nil {
		return nil // somebody says that it is not running
	}
	set(m, svmv1.MigrationRunning, reasonRunning, running(0, 0, nil))
	return write(ctx, r.client, m)
}

// conclude marks a migration that has ended as not running any more.
func (r *Runner) conclude(ctx context.Context, m *svmv1.StorageVersionMigration) error {
	d, ok, err := r.definition(ctx, m)
	if err != nil {
		return err
	}
	if ok {
		if err := r.finish(ctx, d, is(m, svmv1.MigrationSucceeded)); err != nil {
			return err
		}
	}
	meta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{
		Type: string(svmv1.MigrationRunning), Status: metav1.ConditionFalse,
		Reason: "MigrationCompleted", Message: "Migration completed", ObservedGeneration: m.Generation,
	})
	return write(ctx, r.client, m)
}
