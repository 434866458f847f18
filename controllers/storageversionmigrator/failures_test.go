package storageversionmigrator_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	svmv1 "k8s.io/api/storagemigration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/internal/trial"
	"github.com/keelson-dev/keelson/controllers/storageversionmigrator"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/registry/storagemigration"
)

// TestFailures: whichever request fails once, a migration gets on.
func TestFailures(t *testing.T) {
	status := func(skip int) faults.Fault {
		return faults.Fault{Verb: faults.Update, Resource: "storageversionmigrations/status", Skip: skip, Err: trial.ErrDown}
	}
	list := func(skip int) faults.Fault {
		return faults.Fault{Verb: faults.List, Resource: "configmaps", Skip: skip, Err: trial.ErrDown}
	}
	for name, test := range map[string]struct {
		fault faults.Fault
		down  int
	}{
		"start": {fault: status(0)}, "version": {fault: status(1)}, "end": {fault: status(2)}, "conclusion": {fault: status(3)},
		"newest": {fault: list(0)}, "objects": {fault: list(1)},
		"definition": {down: 1}, "mark": {down: 2}, "definition at the end": {down: 3}, "mark at the end": {down: 4},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bench) {
				b.put(configMaps("a")...)
				b.define(3)
				if test.fault.Err != nil {
					b.Inject(test.fault)
				}
				b.down = test.down
				b.put(migration("m", "", "configmaps"))
				time.Sleep(time.Minute)
				b.want("m", completed, succeeded)
				b.wantApplied("configmaps.@7: StorageMigrating is True at 3, MigrationRunning: Migration m is running, stored []",
					"configmaps.@7: StorageMigrating is False at 3, MigrationSucceeded: The migration has succeeded and the stored versions have been updated, stored [v2]")
			})
		})
	}
	for name, test := range map[string]struct{ version, want string }{
		"without a version": {"", "resource does not exist in discovery"},
		"with a version":    {"1", "migration encountered unhandled error: unable to obtain GVR from discovery"},
	} {
		t.Run("the failure of one "+name, func(t *testing.T) {
			run(t, func(b *bench) {
				b.Inject(status(1))
				if test.version != "" {
					b.upTo(migration("m", "example.com", "nothings"), test.version)
				}
			}, func(b *bench) {
				if test.version == "" {
					b.put(migration("m", "example.com", "nothings"))
				}
				time.Sleep(10 * time.Minute)
				b.want("m", "Failed=True StorageVersionMigrationFailed: "+test.want, completed)
			})
		})
	}
}

// TestOrder: the oldest migration of a resource is the next, and those of other groups do not matter.
func TestOrder(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.put(configMaps("a")...)
		b.put(migration("other", "example.com", "configmaps"))
		b.Inject(faults.Fault{Verb: faults.Patch, Resource: "configmaps", Err: apierrors.NewInternalError(errors.New("no")), Times: -1})
		for _, name := range []string{"first", "b", "a"} {
			b.put(migration(name, "", "configmaps"))
			time.Sleep(2 * time.Second)
		}
		b.want("other", "Running=True MigrationRunning: The migration is running")
		if err := b.Others.Delete(b.Context(), client.Target{Resource: migrations, Name: "first"}, metav1.DeleteOptions{}); err != nil {
			b.Fatal(err)
		}
		time.Sleep(time.Minute)
		b.want("a")
		b.want("b", "Running=True MigrationRunning: The migration is running, 1/1 objects not yet migrated; transient error: Internal error occurred: no")
	})
}

// lists answers lists with changed versions.
type lists struct {
	*testing.T
	*controllerstest.API
	change func(*corev1.ConfigMapList)
	limit  int64 // of the last list
}

func (l *lists) List(ctx context.Context, t client.Target, o metav1.ListOptions) (runtime.Object, error) {
	l.limit = o.Limit
	all, err := l.API.List(ctx, t, o)
	if list, ok := all.(*corev1.ConfigMapList); ok && l.change != nil {
		list = list.DeepCopy()
		l.change(list)
		return list, err
	}
	return all, err
}

// alone runs test with an API that has the migrations, and without controllers.
func alone(t *testing.T, test func(*lists, storageversionmigrator.Sources), all ...*svmv1.StorageVersionMigration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := &lists{T: t, API: controllerstest.Start(t, controllerstest.Options{Kinds: storagemigration.Kinds()})}
		in := storageversionmigrator.Sources{Migrations: informer.New(controllerstest.Source[*svmv1.StorageVersionMigration](l.API, migrations), informer.Options{})}
		for _, obj := range configMaps("a", "b", "c") {
			controllerstest.Add(t, l.API, obj)
		}
		for _, m := range all {
			status := m.Status
			m = controllerstest.Add(t, l.API, migration(m.Name, m.Spec.Resource.Group, m.Spec.Resource.Resource)).DeepCopy()
			m.Status = status
			if _, err := l.Others.Update(t.Context(), client.Target{Resource: migrations, Name: m.Name, Subresource: "status"}, m, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		controllerstest.Go(t, in.Migrations)
		synctest.Wait()
		test(l, in)
	})
}

// with returns a migration of config maps up to a version, with a condition.
func with(name, version string, condition svmv1.MigrationConditionType, is metav1.ConditionStatus) *svmv1.StorageVersionMigration {
	m := migration(name, "", "configmaps")
	m.Status.ResourceVersion = version
	m.Status.Conditions = []metav1.Condition{{Type: string(condition), Status: is, Reason: "Test", LastTransitionTime: metav1.Now()}}
	return m
}

// status returns the conditions of a migration in the order in which it got them.
func (l *lists) status(name string) (all []string) {
	l.Helper()
	m, err := client.As[*svmv1.StorageVersionMigration](l.Others.Get(l.Context(), client.Target{Resource: migrations, Name: name}))
	if err != nil {
		l.Fatal(err)
	}
	for _, c := range m.Status.Conditions {
		all = append(all, c.Reason+": "+c.Message)
	}
	return all
}

// TestRetriable: after which errors a migration is tried again, and when; and what it says meanwhile and in the end.
func TestRetriable(t *testing.T) {
	alone(t, func(l *lists, in storageversionmigrator.Sources) {
		group := corev1.Resource("configmaps")
		c := storageversionmigrator.New(in, l, find)
		for _, test := range []struct {
			err   error
			after time.Duration
		}{
			{fmt.Errorf("read: %w", syscall.ECONNRESET), 0},
			{errors.New("http2: client connection lost"), 0},
			{io.EOF, 0},
			{apierrors.NewServerTimeout(group, "patch", 7), 7 * time.Second},
			{apierrors.NewServerTimeout(group, "patch", 0), time.Second},
			{apierrors.NewTooManyRequests("no", 5), 5 * time.Second},
			{apierrors.NewServiceUnavailable("no"), 0},
			{apierrors.NewInternalError(errors.New("no")), 0},
			{apierrors.NewTimeoutError("no", 3), 3 * time.Second},
		} {
			l.Inject(faults.Fault{Verb: faults.Patch, Err: test.err, Skip: 1})
			result, err := c.Reconcile(l.Context(), controllers.Key{Name: "m"})
			if result.RequeueAfter != test.after || (err == nil) != (test.after > 0) || err != nil && !errors.Is(err, test.err) {
				l.Errorf("%v: again after %v, %v", test.err, result.RequeueAfter, err)
			}
			if got, want := fmt.Sprint(l.status("m")), fmt.Sprintf("[MigrationRunning: The migration is running, 2/3 objects not yet migrated; transient error: %v]", test.err); got != want {
				l.Errorf("it says %s, want %s", got, want)
			}
			synctest.Wait()
		}
		if result, err := c.Reconcile(l.Context(), controllers.Key{Name: "m"}); result != (controllers.Result{}) || err != nil {
			l.Errorf("%+v, %v", result, err)
		}
		if got, want := fmt.Sprint(l.status("m")), "[MigrationRunning: The migration is running, 3 objects verified migrated StorageVersionMigrationSucceeded: Migration completed]"; got != want {
			l.Errorf("it says %s, want %s", got, want)
		}
	}, with("m", "1000", svmv1.MigrationRunning, metav1.ConditionTrue))
}

// TestMalformed: a migration fails if versions cannot be compared.
func TestMalformed(t *testing.T) {
	for _, test := range []struct {
		make    func(storageversionmigrator.Sources, storageversionmigrator.Client) controllers.Controller
		version string
		change  func(*corev1.ConfigMapList)
		want    string
	}{
		{
			func(in storageversionmigrator.Sources, c storageversionmigrator.Client) controllers.Controller {
				return storageversionmigrator.New(in, c, find)
			}, "1000", func(l *corev1.ConfigMapList) { l.Items[0].ResourceVersion = "x" },
			`[Test:  StorageVersionMigrationFailed: migration encountered unhandled error: resource version is not well formed: x]`,
		},
		{
			func(in storageversionmigrator.Sources, c storageversionmigrator.Client) controllers.Controller {
				return storageversionmigrator.NewVersions(in, c, find)
			}, "", func(l *corev1.ConfigMapList) { l.ResourceVersion = "x" },
			`[Test:  StorageVersionMigrationFailed: latest resourceVersion for /v1, Resource=configmaps is not valid: resource version is not well formed: x]`,
		},
	} {
		alone(t, func(l *lists, in storageversionmigrator.Sources) {
			l.change = test.change
			c := test.make(in, l)
			l.Inject(faults.Fault{Verb: faults.Update, Err: trial.ErrDown})
			if _, err := c.Reconcile(l.Context(), controllers.Key{Name: "m"}); !errors.Is(err, trial.ErrDown) {
				l.Errorf("%s: the status cannot be written: %v", c.Name(), err)
			}
			if _, err := c.Reconcile(l.Context(), controllers.Key{Name: "m"}); err != nil {
				l.Errorf("%s: %v", c.Name(), err)
			}
			if got := fmt.Sprint(l.status("m")); got != test.want {
				l.Errorf("%s: it says %s, want %s", c.Name(), got, test.want)
			}
		}, with("m", test.version, svmv1.MigrationRunning, metav1.ConditionTrue))
	}
}

// TestNothingToDo: migrations that have ended, or that another controller has to go on with, are left alone.
func TestNothingToDo(t *testing.T) {
	alone(t, func(l *lists, in storageversionmigrator.Sources) {
		migrator, versions, runner := storageversionmigrator.New(in, l, find), storageversionmigrator.NewVersions(in, l, find), storageversionmigrator.NewRunner(in, l)
		for _, test := range []struct {
			c    controllers.Controller
			keys []controllers.Key
		}{
			{migrator, []controllers.Key{{Name: "gone"}, {Name: "starts"}, {Name: "succeeded"}, {Name: "failed"}}},
			{versions, []controllers.Key{{Name: "gone"}, {Name: "stopped"}, {Name: "runs"}, {Name: "succeeded"}, {Name: "failed"}}},
			{runner, []controllers.Key{{Name: "gones"}, {Name: "configmaps"}}},
		} {
			for _, key := range test.keys {
				result, err := test.c.Reconcile(l.Context(), key)
				if result != (controllers.Result{}) || err != nil || len(l.Writes()) > 0 {
					l.Errorf("%s, %s: %+v, %v; %v", test.c.Name(), key.Name, result, err, l.Writes())
				}
			}
		}
		if _, err := versions.Reconcile(l.Context(), controllers.Key{Name: "starts"}); err != nil || l.limit != 1 {
			l.Errorf("it lists %d to learn the version, %v", l.limit, err)
		}
	}, with("starts", "", svmv1.MigrationRunning, metav1.ConditionTrue), with("runs", "1", svmv1.MigrationRunning, metav1.ConditionTrue),
		with("stopped", "", svmv1.MigrationRunning, metav1.ConditionFalse),
		with("succeeded", "1", svmv1.MigrationSucceeded, metav1.ConditionTrue), with("failed", "1", svmv1.MigrationFailed, metav1.ConditionTrue))
}
