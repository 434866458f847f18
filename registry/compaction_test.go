package registry_test

import (
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/storage/memory"
)

// TestCompaction: an old state can be listed for one to two intervals; after that, the token in the error
// continues. Changes are kept as long, so that a watch may resume; an unchanged resource can be watched from
// any of its revisions.
func TestCompaction(t *testing.T) { synctest.Test(t, testCompaction) }

func testCompaction(t *testing.T) {
	res := open(t, memory.New(memory.Options{}), registry.Options{})
	grow := func(name string) int64 {
		item, err := res.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}}, registry.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return item.Revision
	}
	first, second := grow("a"), grow("b")
	grow("c")
	page, err := res.List(t.Context(), registry.ListOptions{Limit: 2})
	if err != nil {
		t.Fatal(err)
	}
	exact := registry.ListOptions{ResourceVersion: strconv.FormatInt(second, 10), Match: metav1.ResourceVersionMatchExact}
	late, err := res.Watch(t.Context(), registry.Selection{}, first)
	if err != nil {
		t.Fatal(err)
	}
	last := grow("d")
	goOn := registry.ListOptions{Limit: 2, Continue: page.Continue}

	time.Sleep(4*time.Minute + 59*time.Second)
	if l, err := res.List(t.Context(), goOn); err != nil || len(l.Items) != 1 {
		t.Errorf("after five minutes: %v, %v", l, err)
	}
	if l, err := res.List(t.Context(), exact); err != nil || len(l.Items) != 2 {
		t.Errorf("an old state after five minutes: %v, %v", l, err)
	}
	time.Sleep(2 * time.Second)
	grow("e")
	time.Sleep(5 * time.Minute)
	_, err = res.List(t.Context(), goOn)
	var gone *registry.Error
	if !errors.As(err, &gone) || !errors.Is(err, registry.ErrExpired) || gone.Continue == "" {
		t.Fatalf("after ten minutes: %v", err)
	}
	if l, err := res.List(t.Context(), registry.ListOptions{Continue: gone.Continue}); err != nil || len(l.Items) != 3 {
		t.Errorf("with the token of the error: %v, %v", l, err)
	}
	if _, err := res.List(t.Context(), exact); !errors.Is(err, registry.ErrExpired) {
		t.Errorf("an old state after ten minutes: %v", err)
	}
	exact.ResourceVersion = strconv.FormatInt(last, 10)
	if l, err := res.List(t.Context(), exact); err != nil || len(l.Items) != 4 {
		t.Errorf("the oldest state that is kept: %v, %v", l, err)
	}
	if _, err := late.Next(t.Context()); !errors.Is(err, registry.ErrExpired) {
		t.Errorf("a watch that stood still for ten minutes: %v", err)
	}
	if _, err := res.Watch(t.Context(), registry.Selection{}, first); !errors.Is(err, registry.ErrExpired) {
		t.Errorf("a watch from before dropped changes: %v", err)
	}
	if w, err := res.Watch(t.Context(), registry.Selection{}, last); err != nil {
		t.Errorf("a watch after which there was one change: %v", err)
	} else if events, err := w.Next(t.Context()); err != nil || len(events) != 1 || events[0].Item.Object.GetName() != "e" {
		t.Errorf("the change: %v, %v", events, err)
	}
}

// TestCompactionOfOthers: an old state is dropped even if only other resources have changed since.
func TestCompactionOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := openWith(t, memory.New(memory.Options{}), registry.Options{}, configMaps(), namespaces(registry.Rules[*corev1.Namespace]{}))
		maps, _ := reg.Resource(schema.GroupResource{Resource: "configmaps"})
		others, _ := reg.Resource(schema.GroupResource{Resource: "namespaces"})
		if _, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "a"}}, registry.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		var revisions []int64
		for _, name := range []string{"x", "y"} {
			item, err := others.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, registry.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			revisions = append(revisions, item.Revision)
		}
		time.Sleep(10*time.Minute + time.Second)
		for i, kept := range []bool{false, true} {
			l, err := maps.List(t.Context(), registry.ListOptions{ResourceVersion: strconv.FormatInt(revisions[i], 10), Match: metav1.ResourceVersionMatchExact})
			if kept && (err != nil || len(l.Items) != 1) || !kept && !errors.Is(err, registry.ErrExpired) {
				t.Errorf("at the revision of other change %d: %v, %v", i, l, err)
			}
		}
	})
}
