package registry_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/memory"
)

// TestReadsAfterTheEnd: what a registry shows can be read after it has ended, as long as the store has nothing newer.
func TestReadsAfterTheEnd(t *testing.T) {
	store := memory.New(memory.Options{})
	reg, err := registry.New(store, []registry.Kind{configMaps()}, registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- reg.Run(ctx) }()
	if err := reg.WaitSynced(t.Context()); err != nil {
		t.Fatal(err)
	}
	res, _ := reg.Resource(configMapsResource)
	create(t, res, "ns", "a", nil)
	end()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if _, err := res.Get(t.Context(), "ns", "a", ""); err != nil {
		t.Errorf("nothing is newer: %v", err)
	}
	if _, err := store.Create(t.Context(), "/elsewhere", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := res.Get(t.Context(), "ns", "a", ""); err == nil {
		t.Error("there may be something newer")
	}
}

// TestDeletionThatIsNotStored: a deletion that cannot be begun fails.
func TestDeletionThatIsNotStored(t *testing.T) {
	broken := errors.New("broken")
	store := &failing{Store: memory.New(memory.Options{})}
	res := open(t, store, registry.Options{})
	obj := config("a", "1")
	obj.Finalizers = []string{"example.com/x"}
	if _, err := res.Create(t.Context(), obj, registry.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	store.update = broken
	if _, gone, err := res.Delete(t.Context(), "ns", "a", registry.DeleteOptions{}); !errors.Is(err, broken) || gone {
		t.Errorf("gone %t, %v", gone, err)
	}
}

// TestPropagationOfASecondDelete: a second delete may ask for another propagation of what is still there.
func TestPropagationOfASecondDelete(t *testing.T) {
	res := open(t, memory.New(memory.Options{}), registry.Options{})
	obj := config("a", "1")
	obj.Finalizers = []string{"example.com/x"}
	if _, err := res.Create(t.Context(), obj, registry.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for policy, want := range map[metav1.DeletionPropagation][]string{
		metav1.DeletePropagationOrphan:     {"example.com/x", metav1.FinalizerOrphanDependents},
		metav1.DeletePropagationForeground: {"example.com/x", metav1.FinalizerDeleteDependents},
	} {
		if _, _, err := res.Delete(t.Context(), "ns", "a", registry.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		o := registry.DeleteOptions{DeleteOptions: metav1.DeleteOptions{PropagationPolicy: &policy}}
		if _, gone, err := res.Delete(t.Context(), "ns", "a", o); err != nil || gone {
			t.Fatalf("gone %t, %v", gone, err)
		}
		item, err := res.Get(t.Context(), "ns", "a", "")
		if err != nil || !slices.Equal(item.Object.GetFinalizers(), want) {
			t.Errorf("%s: %v, %v", policy, item.Object.GetFinalizers(), err)
		}
	}
}

// TestPendingOfOtherSorts: kinds without stored objects have none that are pending.
func TestPendingOfOtherSorts(t *testing.T) {
	reg := openWith(t, memory.New(memory.Options{}), registry.Options{Initialization: stages()}, statuses(parts{}), configMaps())
	res, _ := reg.Resource(statusesResource)
	if err := res.Hidden(t.Context(), "a", "one"); err != nil {
		t.Error(err)
	}
	if items, err := res.Pending(t.Context()); err != nil || len(items) != 0 {
		t.Errorf("%v, %v", items, err)
	}
}

// TestHiddenWithoutTheStore: the store is not asked about what is there for everybody.
func TestHiddenWithoutTheStore(t *testing.T) {
	store := &unsteady{Store: memory.New(memory.Options{})}
	s := stage{t, open(t, store, registry.Options{Initialization: stages()})}
	if err := s.make("a", nil, true); err != nil {
		t.Fatal(err)
	}
	s.begin("x")
	store.revision = errors.New("broken")
	if err := s.Hidden(t.Context(), "a", "a"); err != nil {
		t.Errorf("an object that is complete: %v", err)
	}
	if err := s.Hidden(t.Context(), "a", "x"); !errors.Is(err, store.revision) {
		t.Errorf("an object that is pending: %v", err)
	}
}

// TestRemovedIsNotReplaced: requests that hold a kind that was removed fail as those for one that never was, and those that
// hold one that was replaced may be repeated.
func TestRemovedIsNotReplaced(t *testing.T) {
	reg := openKinds(t, memory.New(memory.Options{}), configMaps())
	first, _ := reg.Resource(configMapsResource)
	second := install(t, reg, configMaps())
	reg.Remove(configMapsResource)
	for res, replaced := range map[*registry.Resource]bool{first: true, second: false} {
		_, err := res.Create(t.Context(), config("a", "1"), registry.CreateOptions{})
		if !errors.Is(err, registry.ErrNotFound) || errors.Is(err, registry.ErrReplaced) != replaced {
			t.Errorf("replaced %t: %v", replaced, err)
		}
	}
}

// TestPendingAfterARestart: what was pending when a server ended is hidden by the next one.
func TestPendingAfterARestart(t *testing.T) {
	inner := memory.New(memory.Options{})
	before := stage{t, open(t, inner, registry.Options{Initialization: stages()})}
	if err := before.make("a", nil, true); err != nil {
		t.Fatal(err)
	}
	before.begin("x")
	var revisions []int64
	after := stage{t, open(t, forgetting{inner, &revisions}, registry.Options{Initialization: stages()})}
	if got := after.names(registry.ListOptions{}); got != "a" {
		t.Errorf("there are %s", got)
	}
	if got := after.names(registry.ListOptions{Selection: registry.Selection{Pending: true}}); got != "a x" {
		t.Errorf("with those that are pending, there are %s", got)
	}
}

// TestModifyBypassesRules: what actions change is stored as it is.
func TestModifyBypassesRules(t *testing.T) {
	kind := ruled(registry.Rules[*corev1.ConfigMap]{ValidateUpdate: func(*corev1.ConfigMap, *corev1.ConfigMap) field.ErrorList {
		return field.ErrorList{field.Forbidden(field.NewPath("data"), "never")}
	}})
	reg := openKinds(t, memory.New(memory.Options{}), kind)
	res, _ := reg.Resource(configMapsResource)
	create(t, res, "ns", "a", nil)
	if _, _, err := res.Update(t.Context(), "ns", "a", set("2", ""), registry.UpdateOptions{}); !errors.Is(err, registry.ErrInvalid) {
		t.Errorf("a client's change: %v", err)
	}
	key := registry.ObjectKey{Resource: configMapsResource, Namespace: "ns", Name: "a"}
	obj, err := reg.Access().Modify(t.Context(), key, func(obj registry.Object) error {
		obj.(*corev1.ConfigMap).Data = map[string]string{"v": "2"}
		return nil
	}, false)
	if err != nil || obj.(*corev1.ConfigMap).Data["v"] != "2" {
		t.Errorf("an action's change: %v, %v", obj, err)
	}
}

// TestDryUpdateOnStaleServer: a dry update shows what becomes of the newest state.
func TestDryUpdateOnStaleServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		testStaleServer(t, func(ctx context.Context, res *registry.Resource, _ string) error {
			item, _, err := res.Update(ctx, "ns", "a", func(ctx context.Context, current registry.Object) (registry.Object, error) {
				return set(current.(*corev1.ConfigMap).Data["v"]+"!", "")(ctx, current)
			}, registry.UpdateOptions{DryRun: true})
			return want(item, err)("new!")
		})
	})
}

// TestSafeDelete: a delete that says that it does not ignore errors is as any other.
func TestSafeDelete(t *testing.T) {
	res := open(t, memory.New(memory.Options{}), registry.Options{})
	create(t, res, "ns", "a", nil)
	o := registry.DeleteOptions{DeleteOptions: metav1.DeleteOptions{IgnoreStoreReadErrorWithClusterBreakingPotential: new(bool)}}
	if _, gone, err := res.Delete(t.Context(), "ns", "a", o); err != nil || !gone {
		t.Errorf("gone %t, %v", gone, err)
	}
}

// TestGraceOfOthers: a grace period that others have stored does not hold an object whose kind has none.
func TestGraceOfOthers(t *testing.T) {
	store := memory.New(memory.Options{})
	res := open(t, store, registry.Options{})
	for name, finalizers := range map[string]string{"a": "", "b": `,"finalizers":["example.com/x"]`} {
		stored := `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"namespace":"ns","name":"` + name + `","uid":"1","deletionTimestamp":"2026-01-02T03:04:05Z","deletionGracePeriodSeconds":30` + finalizers + `}}`
		if _, err := store.Create(t.Context(), "/registry/configmaps/ns/"+name, []byte(stored)); err != nil {
			t.Fatal(err)
		}
		item, gone, err := res.Delete(t.Context(), "ns", name, registry.DeleteOptions{})
		if err != nil || gone != (finalizers == "") {
			t.Fatalf("%s: gone %t, %v", name, gone, err)
		}
		if left := item.Object.GetDeletionGracePeriodSeconds(); !gone && (left == nil || *left != 0) {
			t.Errorf("%s: %v seconds are left", name, left)
		}
	}
}

// TestCreatorIsToldOfWaiting: who creates a pending object learns that the create waits, and nobody else does.
func TestCreatorIsToldOfWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openStage(t)
		waiting := false
		create := func(name string, data map[string]string) error {
			obj := config(name, "")
			obj.Namespace, obj.Data = "a", data
			_, err := s.Create(t.Context(), obj, registry.CreateOptions{Waits: registry.Waits{Waiting: func() { waiting = true }}})
			return err
		}
		if err := create("a", nil); err != nil || waiting {
			t.Errorf("waited for what is complete: %t, %v", waiting, err)
		}
		made := false
		go func() {
			if err := create("x", map[string]string{"wait": "1"}); err != nil {
				t.Error(err)
			}
			made = true
		}()
		if synctest.Wait(); !waiting || made {
			t.Errorf("waits %t, returned %t", waiting, made)
		}
		s.set("x", nil)
		if synctest.Wait(); !made {
			t.Error("it still waits")
		}
	})
}

// TestDropFailedThatIsGone: an object that somebody else deletes at the same time need not be deleted.
func TestDropFailedThatIsGone(t *testing.T) {
	inner := memory.New(memory.Options{})
	s := stage{t, open(t, undeletable{inner, storage.ErrConflict}, registry.Options{Initialization: stages()})}
	if err := s.make("x", map[string]string{"wait": "1", "why": "never"}, false); err != nil {
		t.Fatal(err)
	}
	item, err := s.GetPending(t.Context(), "a", "x", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, gone, err := open(t, inner, registry.Options{}).Delete(t.Context(), "a", "x", registry.DeleteOptions{}); err != nil || !gone {
		t.Fatalf("gone %t, %v", gone, err)
	}
	if err := s.DropFailed(t.Context(), item); err != nil {
		t.Error(err)
	}
}

// TestWatchShowsTheLastMatch: a watch that no longer selects an object shows the state that it selected last, under the
// revision of the change.
func TestWatchShowsTheLastMatch(t *testing.T) {
	res := open(t, memory.New(memory.Options{}), registry.Options{})
	create(t, res, "ns", "a", map[string]string{"l": "x"})
	_, w, err := res.ListAndWatch(t.Context(), registry.Selection{Labels: selector(t, "l=x")}, "")
	if err != nil {
		t.Fatal(err)
	}
	item, _, err := res.Update(t.Context(), "ns", "a", func(_ context.Context, current registry.Object) (registry.Object, error) {
		obj := current.DeepCopyObject().(registry.Object)
		obj.SetLabels(map[string]string{"l": "y"})
		return obj, nil
	}, registry.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	events, err := w.Next(t.Context())
	if err != nil || len(events) != 1 || events[0].Type != informer.Deleted {
		t.Fatalf("told of %v, %v", events, err)
	}
	obj := events[0].Item.Object
	if obj.GetLabels()["l"] != "x" || obj.GetResourceVersion() != item.Object.GetResourceVersion() || events[0].Revision != item.Revision {
		t.Errorf("shown as %v, want the labels of before and version %s", obj, item.Object.GetResourceVersion())
	}
}
