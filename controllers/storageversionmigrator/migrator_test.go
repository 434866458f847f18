package storageversionmigrator_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	svmv1 "k8s.io/api/storagemigration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/internal/trial"
	"github.com/keelson-dev/keelson/controllers/storageversionmigrator"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/registry/storagemigration"
)

var migrations = svmv1.SchemeGroupVersion.WithResource("storageversionmigrations")

// bench is an API with the three controllers. It is also their client, which knows a CustomResourceDefinition.
type bench struct {
	*testing.T
	*controllerstest.API

	mu         sync.Mutex
	definition map[string]any // nil if there is none
	applied    []string       // to its status
	down       int            // the number, from 1, of the request for definitions that fails
}

// fails counts the requests for definitions down.
func (b *bench) fails() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down--; b.down == 0 {
		return trial.ErrDown
	}
	return nil
}

// Get implements client.Getter.
func (b *bench) Get(ctx context.Context, t client.Target) (runtime.Object, error) {
	if t.Resource.Resource != "customresourcedefinitions" {
		return b.API.Get(ctx, t)
	}
	if err := b.fails(); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.definition == nil || t.Name != "configmaps." {
		return nil, apierrors.NewNotFound(t.Resource.GroupResource(), t.Name)
	}
	return &unstructured.Unstructured{Object: runtime.DeepCopyJSON(b.definition)}, nil
}

// Patch implements client.Patcher.
func (b *bench) Patch(ctx context.Context, t client.Target, p client.Patch, o metav1.PatchOptions) (runtime.Object, error) {
	if t.Resource.Resource != "customresourcedefinitions" {
		return b.API.Patch(ctx, t, p, o)
	}
	if err := b.fails(); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	patch := struct {
		Metadata metav1.ObjectMeta
		Status   struct {
			Conditions     []metav1.Condition
			StoredVersions []string
		}
	}{}
	if err := json.Unmarshal(p.Data, &patch); err != nil {
		return nil, err
	}
	c := patch.Status.Conditions[0]
	b.applied = append(b.applied, fmt.Sprintf("%s@%s: %s is %s at %d, %s: %s, stored %v",
		patch.Metadata.Name, patch.Metadata.ResourceVersion, c.Type, c.Status, c.ObservedGeneration, c.Reason, c.Message, patch.Status.StoredVersions))
	if o.FieldManager != "migration-runner-controller" || !*o.Force || t.Subresource != "status" {
		b.Errorf("applied by %s to %s", o.FieldManager, t.Subresource)
	}
	b.definition["status"] = map[string]any{"conditions": []any{
		map[string]any{"type": "Established", "observedGeneration": int64(4)}, map[string]any{"type": c.Type, "observedGeneration": c.ObservedGeneration},
	}}
	return &unstructured.Unstructured{}, nil
}

func (b *bench) define(generation int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	status := map[string]any{}
	if b.definition != nil {
		status = b.definition["status"].(map[string]any)
	}
	b.definition = map[string]any{
		"metadata": map[string]any{"name": "configmaps.", "resourceVersion": "7", "generation": generation},
		"spec":     map[string]any{"versions": []any{map[string]any{"name": "v1", "storage": false}, map[string]any{"name": "v2", "storage": true}}},
		"status":   status,
	}
}

func (b *bench) wantApplied(want ...string) {
	b.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if got := slices.Compact(b.applied); !slices.Equal(got, want) {
		b.Errorf("applied\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// find finds config maps only.
func find(_ context.Context, gr schema.GroupResource) (storageversionmigrator.Resource, bool, error) {
	switch gr {
	case corev1.Resource("configmaps"):
		return storageversionmigrator.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("configmaps"), Kind: "ConfigMap"}, true, nil
	case schema.GroupResource{Group: "example.com", Resource: "down"}:
		return storageversionmigrator.Resource{}, false, errors.New("down")
	}
	return storageversionmigrator.Resource{}, false, nil
}

func inBubble(t *testing.T, test func(*bench)) {
	t.Helper()
	run(t, nil, test)
}

// run runs test against the controllers; before, if not nil, makes what is there when they start.
func run(t *testing.T, before, test func(*bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t, API: controllerstest.Start(t, controllerstest.Options{Kinds: storagemigration.Kinds()})}
		in := storageversionmigrator.Sources{Migrations: informer.New(controllerstest.Source[*svmv1.StorageVersionMigration](b.API, migrations),
			informer.Options{DetectMutations: func(err error) { t.Error(err) }})}
		if before != nil {
			before(b)
		}
		loop := func(c controllers.Controller) *controllers.Loop { return controllers.NewLoop(c, controllers.Options{}) }
		controllerstest.Go(t, in.Migrations, loop(storageversionmigrator.NewRunner(in, b)),
			loop(storageversionmigrator.NewVersions(in, b, find)), loop(storageversionmigrator.New(in, b, find)))
		synctest.Wait()
		test(b)
	})
}

func (b *bench) put(objects ...informer.Object) {
	b.Helper()
	for _, obj := range objects {
		controllerstest.Add(b, b.API, obj)
	}
	synctest.Wait()
}

func configMaps(names ...string) []informer.Object {
	var all []informer.Object
	for _, name := range names {
		all = append(all, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}})
	}
	return all
}

func migration(name, group, resource string) *svmv1.StorageVersionMigration {
	return &svmv1.StorageVersionMigration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       svmv1.StorageVersionMigrationSpec{Resource: metav1.GroupResource{Group: group, Resource: resource}},
	}
}

func (b *bench) migration(name string) *svmv1.StorageVersionMigration {
	b.Helper()
	m, err := client.As[*svmv1.StorageVersionMigration](b.Others.Get(b.Context(), client.Target{Resource: migrations, Name: name}))
	if err != nil {
		b.Fatal(err)
	}
	return m
}

// want compares the conditions of a migration: "Type=Status Reason: Message".
func (b *bench) want(name string, want ...string) {
	b.Helper()
	synctest.Wait()
	var got []string
	for _, c := range b.migration(name).Status.Conditions {
		got = append(got, fmt.Sprintf("%s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message))
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		b.Errorf("%s is\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// patched returns the objects that were patched since the last time, without repetitions.
func (b *bench) patched() string {
	var all []string
	for _, w := range b.Writes() {
		if w.Verb == faults.Patch {
			all = append(all, w.Target.Name)
		}
	}
	b.Reset()
	slices.Sort(all)
	return strings.Join(slices.Compact(all), " ")
}

const (
	completed = "Running=False MigrationCompleted: Migration completed"
	succeeded = "Succeeded=True StorageVersionMigrationSucceeded: Migration completed"
)

func TestMigrates(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.put(configMaps("a", "b", "c")...)
		b.put(migration("m", "", "configmaps"))
		b.want("m", completed, succeeded)
		if got := b.patched(); got != "a b c" {
			b.Errorf("patched %s", got)
		}
		if b.migration("m").Status.ResourceVersion == "" {
			b.Error("no resource version")
		}
		b.wantApplied()
		time.Sleep(24 * time.Hour)
		if got := b.patched(); got != "" {
			b.Errorf("patched %s once more", got)
		}
	})
}

// TestManyObjects: more than fit in a page.
func TestManyObjects(t *testing.T) {
	inBubble(t, func(b *bench) {
		var names []string
		for i := range 501 {
			names = append(names, fmt.Sprintf("c%03d", i))
		}
		b.put(configMaps(names...)...)
		b.put(migration("m", "", "configmaps"))
		b.want("m", completed, succeeded)
		if got := b.patched(); got != strings.Join(names, " ") {
			b.Errorf("patched %s", got)
		}
	})
}

// upTo makes a migration of objects up to a resource version.
func (b *bench) upTo(m *svmv1.StorageVersionMigration, version string) {
	b.Helper()
	m = controllerstest.Add(b, b.API, m).DeepCopy()
	m.Status.ResourceVersion = version
	if _, err := b.Others.Update(b.Context(), client.Target{Resource: migrations, Name: m.Name, Subresource: "status"}, m, metav1.UpdateOptions{}); err != nil {
		b.Fatal(err)
	}
}

// TestNewer: what was written after the migration has begun is not written again.
func TestNewer(t *testing.T) {
	run(t, func(b *bench) {
		b.put(configMaps("old")...)
		at := client.Target{Resource: corev1.SchemeGroupVersion.WithResource("configmaps"), Namespace: "ns", Name: "old"}
		old, err := client.As[*corev1.ConfigMap](b.Others.Get(b.Context(), at))
		if err != nil {
			b.Fatal(err)
		}
		b.put(configMaps("new")...)
		b.upTo(migration("m", "", "configmaps"), old.ResourceVersion)
	}, func(b *bench) {
		b.want("m", completed, succeeded)
		if got := b.patched(); got != "old" {
			b.Errorf("patched %s", got)
		}
	})
}

// TestErrors: which errors end a migration.
func TestErrors(t *testing.T) {
	for name, tt := range map[string]struct {
		err   error
		times int
		while []string // it fails
		then  []string
	}{
		"conflict":  {apierrors.NewConflict(corev1.Resource("configmaps"), "a", errors.New("no")), 1, []string{completed, succeeded}, []string{completed, succeeded}},
		"not found": {apierrors.NewNotFound(corev1.Resource("configmaps"), "a"), -1, []string{completed, succeeded}, []string{completed, succeeded}},
		"internal": {apierrors.NewInternalError(errors.New("no")), -1,
			[]string{"Running=True MigrationRunning: The migration is running, 2/2 objects not yet migrated; transient error: Internal error occurred: no"},
			[]string{completed, succeeded}},
		"too many": {apierrors.NewTooManyRequests("no", 5), -1,
			[]string{"Running=True MigrationRunning: The migration is running, 2/2 objects not yet migrated; transient error: no"},
			[]string{completed, succeeded}},
		"forbidden": {apierrors.NewForbidden(corev1.Resource("configmaps"), "a", errors.New("no")), -1,
			[]string{`Failed=True StorageVersionMigrationFailed: 2/2 not yet migrated. migration encountered unhandled error: configmaps "a" is forbidden: no`, completed},
			[]string{`Failed=True StorageVersionMigrationFailed: 2/2 not yet migrated. migration encountered unhandled error: configmaps "a" is forbidden: no`, completed}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bench) {
				b.put(configMaps("a", "b")...)
				b.Inject(faults.Fault{Verb: faults.Patch, Resource: "configmaps", Err: tt.err, Times: tt.times})
				b.put(migration("m", "", "configmaps"))
				time.Sleep(time.Minute)
				b.want("m", tt.while...)
				b.Heal()
				time.Sleep(time.Hour)
				b.want("m", tt.then...)
			})
		})
	}
}

// TestOneAtATime: a migration waits for the one before it, and goes on if that has gone.
func TestOneAtATime(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.put(configMaps("a")...)
		b.Inject(faults.Fault{Verb: faults.Patch, Resource: "configmaps", Err: apierrors.NewInternalError(errors.New("no")), Times: -1})
		b.put(migration("z", "", "configmaps"))
		time.Sleep(time.Minute)
		b.put(migration("b", "", "configmaps"), migration("a", "", "configmaps"))
		time.Sleep(time.Minute)
		if !meta.IsStatusConditionTrue(b.migration("z").Status.Conditions, "Running") {
			b.Error("the first does not run")
		}
		b.want("a")
		b.want("b")
		if err := b.Others.Delete(b.Context(), client.Target{Resource: migrations, Name: "z"}, metav1.DeleteOptions{}); err != nil {
			b.Fatal(err)
		}
		time.Sleep(time.Minute)
		b.want("b")
		b.Heal()
		time.Sleep(time.Hour)
		b.want("a", completed, succeeded)
		b.want("b", completed, succeeded)
	})
}

// TestUnknownResource: one that is not served may be soon.
func TestUnknownResource(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.put(migration("m", "example.com", "nothings"), migration("down", "example.com", "down"))
		time.Sleep(30 * time.Second)
		running := "Running=True MigrationRunning: The migration is running"
		b.want("m", running)
		time.Sleep(5 * time.Minute)
		b.want("m", "Failed=True StorageVersionMigrationFailed: resource does not exist in discovery", completed)
		b.want("down", running)
	})
	run(t, func(b *bench) { b.upTo(migration("m", "example.com", "nothings"), "1") }, func(b *bench) {
		time.Sleep(30 * time.Second)
		b.want("m", "Running=True MigrationRunning: The migration is running")
		time.Sleep(5 * time.Minute)
		b.want("m", "Failed=True StorageVersionMigrationFailed: migration encountered unhandled error: unable to obtain GVR from discovery", completed)
	})
}

// TestDefinition: a CustomResourceDefinition tells of the migration; the versions in which nothing is stored any more go.
func TestDefinition(t *testing.T) {
	start := "configmaps.@7: StorageMigrating is True at 3, MigrationRunning: Migration m is running, stored []"
	for name, tt := range map[string]struct {
		changed bool  // while it runs
		err     error // of its patches
		want    string
	}{
		"success": {false, nil, "configmaps.@7: StorageMigrating is False at 3, MigrationSucceeded: The migration has succeeded and the stored versions have been updated, stored [v2]"},
		"changed": {true, nil, "configmaps.@7: StorageMigrating is False at 4, MigrationSucceeded: The migration has succeeded but the stored versions have not been updated due to a generation mismatch, stored []"},
		"failure": {false, errors.New("no"), "configmaps.@7: StorageMigrating is False at 3, MigrationFailed: The migration has failed, stored []"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bench) {
				b.put(configMaps("a")...)
				b.define(3)
				b.Inject(faults.Fault{Verb: faults.Patch, Resource: "configmaps", Err: apierrors.NewInternalError(errors.New("later")), Times: -1})
				b.put(migration("m", "", "configmaps"))
				time.Sleep(time.Minute)
				b.wantApplied(start)
				if tt.changed {
					b.define(4)
				}
				b.Heal()
				if tt.err != nil {
					b.Inject(faults.Fault{Verb: faults.Patch, Resource: "configmaps", Err: tt.err, Times: -1})
				}
				time.Sleep(time.Hour)
				b.wantApplied(start, tt.want)
			})
		})
	}
}

// TestWatch: which keys a change enqueues.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := controllerstest.Start(t, controllerstest.Options{Kinds: storagemigration.Kinds()})
		in := storageversionmigrator.Sources{Migrations: informer.New(controllerstest.Source[*svmv1.StorageVersionMigration](api, migrations), informer.Options{})}
		all := []controllers.Controller{storageversionmigrator.NewRunner(in, nil), storageversionmigrator.NewVersions(in, nil, nil), storageversionmigrator.New(in, nil, nil)}
		queues := make([]trial.Queue, len(all))
		for i, c := range all {
			c.Watch(&queues[i])
		}
		controllerstest.Go(t, in.Migrations)
		want := func(what string, want ...string) {
			t.Helper()
			synctest.Wait()
			for i, c := range all {
				if got := queues[i].Take(); got != want[i] {
					t.Errorf("%s: %s enqueues %q, want %q", c.Name(), what, got, want[i])
				}
			}
		}
		m := controllerstest.Add(t, api, migration("m", "apps", "deployments"))
		want("new", "apps/deployments", "m", "m")
		m = m.DeepCopy()
		m.Labels = map[string]string{"l": "v"}
		at := client.Target{Resource: migrations, Name: "m"}
		if _, err := api.Others.Update(t.Context(), at, m, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		want("changed", "apps/deployments", "m", "m")
		if err := api.Others.Delete(t.Context(), at, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		want("gone", "apps/deployments", "", "")
	})
}
