package customresources_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/storage/memory"
)

// inBubble runs a test in virtual time with a backup kind that is established.
func inBubble(t *testing.T, test func(t *testing.T, a *api)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a := clients(t, start(t, cluster.Options{}).Config())
		a.define(backup())
		a.established("backups.example.com")
		test(t, a)
	})
}

func ownedBy(u *unstructured.Unstructured) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Name: u.GetName(), UID: u.GetUID()}}
}

// TestGarbage: custom objects are owners and dependents like all others.
func TestGarbage(t *testing.T) {
	inBubble(t, func(t *testing.T, a *api) { garbage(t, a) })
}

// TestGarbageOfOlderKinds: also if the kind was there before the cluster started.
func TestGarbageOfOlderKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(memory.Options{})
		t.Cleanup(func() { _ = store.Close() }) // after the clusters
		c := start(t, cluster.Options{Store: store})
		a := clients(t, c.Config())
		a.define(backup())
		a.established("backups.example.com")
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		c = start(t, cluster.Options{Store: store})
		garbage(t, clients(t, c.Config()))
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

func garbage(t *testing.T, a *api) {
	ctx, in, maps := t.Context(), a.backups("default"), a.cs.CoreV1().ConfigMaps("default")
	owner := a.create(in, object("owner"))
	a.create(in, object("dependent", func(u *unstructured.Unstructured) { u.SetOwnerReferences(ownedBy(owner)) }))
	if _, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m", OwnerReferences: ownedBy(owner)}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	lonely := object("lonely", func(u *unstructured.Unstructured) {
		refs := ownedBy(owner)
		refs[0].UID = "no-such-uid"
		u.SetOwnerReferences(refs)
	})
	a.create(in, lonely)
	a.gone(in, "lonely")
	foreground := metav1.DeletePropagationForeground
	if err := in.Delete(ctx, "owner", metav1.DeleteOptions{PropagationPolicy: &foreground}); err != nil {
		t.Fatal(err)
	}
	a.gone(in, "owner")
	a.gone(in, "dependent")
	time.Sleep(10 * time.Second)
	if _, err := maps.Get(ctx, "m", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a dependent of another kind: %v", err)
	}

	owner = a.create(in, object("owner"))
	a.create(in, object("orphan", func(u *unstructured.Unstructured) { u.SetOwnerReferences(ownedBy(owner)) }))
	orphan := metav1.DeletePropagationOrphan
	if err := in.Delete(ctx, "owner", metav1.DeleteOptions{PropagationPolicy: &orphan}); err != nil {
		t.Fatal(err)
	}
	a.gone(in, "owner")
	time.Sleep(10 * time.Second)
	if u, err := in.Get(ctx, "orphan", metav1.GetOptions{}); err != nil || len(u.GetOwnerReferences()) != 0 {
		t.Errorf("an orphan: %v, %v", u, err)
	}
}

// TestGarbageOfDeletedKind: the dependents of objects that are deleted with their definition are collected; those of
// objects whose kind is only not served are not.
func TestGarbageOfDeletedKind(t *testing.T) {
	inBubble(t, func(t *testing.T, a *api) {
		ctx, maps := t.Context(), a.cs.CoreV1().ConfigMaps("default")
		owner := a.create(a.backups("default"), object("owner"))
		if _, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m", OwnerReferences: ownedBy(owner)}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		a.change("backups.example.com", unservable)
		time.Sleep(time.Hour)
		if _, err := maps.Patch(ctx, "m", types.MergePatchType, []byte(`{"data":{"a":"b"}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if _, err := maps.Get(ctx, "m", metav1.GetOptions{}); err != nil {
			t.Errorf("while the kind is not served: %v", err)
		}
		a.change("backups.example.com", servable)
		time.Sleep(time.Hour)
		if _, err := maps.Get(ctx, "m", metav1.GetOptions{}); err != nil {
			t.Errorf("when it is served again: %v", err)
		}
		a.delete(a.any.Resource(definitions), "backups.example.com")
		time.Sleep(time.Minute)
		if _, err := maps.Get(ctx, "m", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("when the kind is gone: %v", err)
		}
	})
}

// TestLateOwners: references to a kind that is not served are judged once it is.
func TestLateOwners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := clients(t, start(t, cluster.Options{}).Config())
		ctx, maps := t.Context(), a.cs.CoreV1().ConfigMaps("default")
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m", OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "example.com/v1", Kind: "Backup", Name: "none", UID: "none"},
		}}}
		if _, err := maps.Create(ctx, m, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if _, err := maps.Get(ctx, "m", metav1.GetOptions{}); err != nil {
			t.Fatalf("before the kind is served: %v", err)
		}
		a.define(backup())
		time.Sleep(time.Minute)
		if _, err := maps.Get(ctx, "m", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("since: %v", err)
		}
	})
}

// TestNamespace: custom objects are deleted with their namespace.
func TestNamespace(t *testing.T) {
	inBubble(t, func(t *testing.T, a *api) {
		ctx := t.Context()
		if _, err := a.cs.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		a.create(a.backups("shop"), object("a"))
		a.create(a.backups("default"), object("b"))
		if err := a.cs.CoreV1().Namespaces().Delete(ctx, "shop", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if _, err := a.cs.CoreV1().Namespaces().Get(ctx, "shop", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("the namespace: %v", err)
		}
		if l, err := a.backups("").List(ctx, metav1.ListOptions{}); err != nil || len(l.Items) != 1 || l.Items[0].GetName() != "b" {
			t.Errorf("left: %v, %v", l, err)
		}
	})
}

// TestQuota: quotas count custom objects, also of a kind that goes and comes back.
func TestQuota(t *testing.T) {
	inBubble(t, func(t *testing.T, a *api) {
		ctx, in, quotas := t.Context(), a.backups("default"), a.cs.CoreV1().ResourceQuotas("default")
		if _, err := quotas.Create(ctx, &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Name: "q"},
			Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/backups.example.com": resource.MustParse("2")}},
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		used := func(want string) {
			t.Helper()
			time.Sleep(10 * time.Minute)
			q, err := quotas.Get(ctx, "q", metav1.GetOptions{})
			if n := q.Status.Used["count/backups.example.com"]; err != nil || n.String() != want {
				t.Errorf("used %s, want %s, %v", n.String(), want, err)
			}
		}
		used("0")
		for i := range 2 {
			a.create(in, object(fmt.Sprint("b", i)))
		}
		if _, err := in.Create(ctx, object("b2"), metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("the third: %v", err)
		}
		used("2")
		a.delete(in, "b0")
		used("1")
		a.change("backups.example.com", unservable)
		used("1")
		a.change("backups.example.com", servable)
		used("1")
		a.create(in, object("b0"))
		if _, err := in.Create(ctx, object("b2"), metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("the third again: %v", err)
		}
		used("2")
		a.delete(a.any.Resource(definitions), "backups.example.com")
		used("0")
		a.define(backup())
		a.established("backups.example.com")
		a.create(in, object("b0"))
		used("1")
	})
}

// TestHeld: a definition waits for objects that have finalizers, refuses new ones meanwhile and says so.
func TestHeld(t *testing.T) {
	inBubble(t, func(t *testing.T, a *api) {
		ctx, in := t.Context(), a.backups("default")
		a.create(in, object("held", func(u *unstructured.Unstructured) { u.SetFinalizers([]string{"example.com/hold"}) }))
		a.create(in, object("free"))
		a.delete(a.any.Resource(definitions), "backups.example.com")
		time.Sleep(time.Second)
		state := func(want string) {
			t.Helper()
			crd := a.definition("backups.example.com")
			if got := conditions(crd); got[len(got)-1] != want {
				t.Errorf("conditions: %q", got)
			}
		}
		state("Terminating True InstanceDeletionInProgress: CustomResource deletion is in progress")
		if _, err := in.Create(ctx, object("new"), metav1.CreateOptions{}); !apierrors.IsForbidden(err) ||
			err.Error() != `backups.example.com "new" is forbidden: create not allowed while custom resource definition is terminating` {
			t.Errorf("create: %v", err)
		}
		if _, err := in.Get(ctx, "free", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("what nothing holds: %v", err)
		}
		began := time.Now()
		a.condition("backups.example.com", "Terminating True InstanceDeletionCheck: could not confirm zero CustomResources remaining: context deadline exceeded")
		if waited := time.Since(began); waited < 58*time.Second || waited > time.Minute {
			t.Errorf("it waited %v", waited)
		}
		if _, err := in.Patch(ctx, "held", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		a.gone(a.any.Resource(definitions), "backups.example.com")
	})
}
