package registry_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/storage/memory"
)

// TestExpiryIsQuiet: objects that expire go without a word in the log.
func TestExpiryIsQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		kind := configMaps()
		kind.TTL = time.Hour
		res := openKind(t, memory.New(memory.Options{}), kind, registry.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		create(t, res, "ns", "a", nil)
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if res.Len() != 0 || log.Len() > 0 {
			t.Errorf("%d objects, logged %q", res.Len(), log.String())
		}
	})
}

// TestDropFailedAfterOthers: an object that will not be completed is deleted in the state to which others have changed it, but
// not if it can be completed then.
func TestDropFailedAfterOthers(t *testing.T) {
	store := memory.New(memory.Options{})
	s := stage{t, open(t, store, registry.Options{Initialization: stages()})}
	other := open(t, store, registry.Options{}) // which leaves such objects alone
	for name, data := range map[string]map[string]string{
		"failed": {"wait": "1", "why": "another"}, "waiting": {"wait": "1"}, "complete": nil,
	} {
		if err := s.make(name, map[string]string{"wait": "1", "why": "never"}, false); err != nil {
			t.Fatal(err)
		}
		item, err := s.GetPending(t.Context(), "a", name, "")
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = other.Update(t.Context(), "a", name, func(_ context.Context, current registry.Object) (registry.Object, error) {
			obj := config(name, "")
			obj.ObjectMeta = metav1.ObjectMeta{Namespace: "a", Name: name, UID: current.GetUID()}
			obj.Data = data
			return obj, nil
		}, registry.UpdateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.DropFailed(t.Context(), item); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := s.names(registry.ListOptions{Selection: registry.Selection{Pending: true}}); got != "complete waiting" {
		t.Errorf("there are %s", got)
	}
}

// TestStoreIsReadAtOneRevision: the pages in which a store is read are of one state.
func TestStoreIsReadAtOneRevision(t *testing.T) {
	inner := memory.New(memory.Options{})
	for n := range 4001 {
		if _, err := inner.Create(t.Context(), fmt.Sprintf("/registry/others/%d", n), []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	now, err := inner.Revision(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var revisions []int64
	open(t, forgetting{inner, &revisions}, registry.Options{})
	if !slices.Equal(revisions, []int64{0, now, now}) {
		t.Errorf("listed at %v", revisions)
	}
}

// TestForeignKeys: what is in the store under keys of no kind is left alone.
func TestForeignKeys(t *testing.T) {
	store := memory.New(memory.Options{})
	foreign := []string{registry.Root, registry.Root + "x", registry.Root + "x/y", registry.Root + "/", registry.Root + "configmaps", registry.Root + "configmapsx/ns/b"}
	for _, key := range foreign {
		if _, err := store.Create(t.Context(), key, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	res := open(t, store, registry.Options{})
	create(t, res, "ns", "a", nil)
	if res.Len() != 1 || len(res.Unreadable("")) != 0 {
		t.Errorf("%d objects, unreadable: %v", res.Len(), res.Unreadable(""))
	}
	for _, key := range foreign {
		if rec, err := store.Get(t.Context(), key); err != nil || string(rec.Value) != "x" {
			t.Errorf("%s: %s, %v", key, rec.Value, err)
		}
	}
}
