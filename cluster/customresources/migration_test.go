package customresources_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	svmv1 "k8s.io/api/storagemigration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/storage/memory"
)

// TestStorageVersionMigration: after a migration to another version, all objects are stored in it, and the definition says so.
func TestStorageVersionMigration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(memory.Options{})
		t.Cleanup(func() { _ = store.Close() }) // after the cluster
		a, ctx := clients(t, start(t, cluster.Options{Store: store}).Config()), t.Context()
		a.define(backup())
		a.established("backups.example.com")
		for _, name := range []string{"a", "b"} {
			a.create(a.backups("default"), object(name))
		}
		a.change("backups.example.com", func(crd *definition) {
			second := *crd.Spec.Versions[0].DeepCopy()
			second.Name, crd.Spec.Versions[0].Storage = "v2", false
			crd.Spec.Versions = append(crd.Spec.Versions, second)
		})
		time.Sleep(time.Minute)
		stored := func() (versions []string) {
			for _, name := range []string{"a", "b"} {
				record, err := store.Get(ctx, "/registry/example.com/backups/default/"+name)
				if err != nil {
					t.Fatal(err)
				}
				_, version, _ := strings.Cut(string(record.Value), `"apiVersion":"example.com/`)
				versions = append(versions, version[:2])
			}
			return versions
		}
		if got, crd := stored(), a.definition("backups.example.com"); !slices.Equal(got, []string{"v1", "v1"}) || !slices.Equal(crd.Status.StoredVersions, []string{"v1", "v2"}) {
			t.Fatalf("before: %v, %v", got, crd.Status.StoredVersions)
		}
		migrations := a.cs.StoragemigrationV1().StorageVersionMigrations()
		_, err := migrations.Create(ctx, &svmv1.StorageVersionMigration{ObjectMeta: metav1.ObjectMeta{Name: "m"}, Spec: svmv1.StorageVersionMigrationSpec{
			Resource: metav1.GroupResource{Group: "example.com", Resource: "backups"},
		}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		m, err := migrations.Get(ctx, "m", metav1.GetOptions{})
		if err != nil || !meta.IsStatusConditionTrue(m.Status.Conditions, "Succeeded") || !meta.IsStatusConditionFalse(m.Status.Conditions, "Running") {
			t.Errorf("%v, %+v", err, m.Status)
		}
		crd := a.definition("backups.example.com")
		want := "StorageMigrating False MigrationSucceeded: The migration has succeeded and the stored versions have been updated"
		if got := stored(); !slices.Equal(got, []string{"v2", "v2"}) || !slices.Equal(crd.Status.StoredVersions, []string{"v2"}) || !slices.Contains(conditions(crd), want) {
			t.Errorf("after: %v, %s", got, fmt.Sprint(crd.Status.StoredVersions, conditions(crd)))
		}
	})
}
