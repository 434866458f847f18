package registry_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/memory"
)

// told are the changes that Effects.After was told of.
type told struct{ changes []string }

func (d *told) after(ctx context.Context, obj, old *corev1.ConfigMap) {
	show := func(c *corev1.ConfigMap) string {
		if c == nil {
			return "-"
		}
		return c.Data["v"] + "@" + c.ResourceVersion
	}
	d.changes = append(d.changes, show(old)+" > "+show(obj))
	if _, ok := ctx.Deadline(); !ok || ctx.Err() != nil {
		d.changes = append(d.changes, "the context has no deadline, or has ended")
	}
}

func (d *told) kind() registry.Kind {
	k := configMaps()
	k.Rules = ruled(registry.Rules[*corev1.ConfigMap]{Effects: registry.Effects[*corev1.ConfigMap]{After: d.after}}).Rules
	return k
}

func (d *told) expect(t *testing.T, what string, want ...string) {
	t.Helper()
	if got := fmt.Sprint(d.changes); got != fmt.Sprint(want) {
		t.Errorf("%s: told of %s, want %s", what, got, want)
	}
	d.changes = nil
}

// TestAfter: After is told of every change that is stored, with both states, and of nothing else.
func TestAfter(t *testing.T) {
	d := &told{}
	res := openKind(t, memory.New(memory.Options{}), d.kind(), registry.Options{})
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	write := func(change registry.Change, o registry.UpdateOptions) *registry.Item {
		t.Helper()
		item, _, err := res.Update(ctx, "ns", "a", change, o)
		must(err)
		return item
	}
	_, err := res.Create(ctx, config("a", "1"), registry.CreateOptions{DryRun: true})
	must(err)
	d.expect(t, "a dry run")
	one, err := res.Create(ctx, config("a", "1"), registry.CreateOptions{})
	must(err)
	first := "1@" + one.Object.GetResourceVersion()
	d.expect(t, "a create", "- > "+first)
	if _, err = res.Create(ctx, config("a", "1"), registry.CreateOptions{}); !errors.Is(err, registry.ErrExists) {
		t.Error(err)
	}
	d.expect(t, "a refused create")

	write(set("1", ""), registry.UpdateOptions{})
	d.expect(t, "an update without effect")
	write(set("2", ""), registry.UpdateOptions{DryRun: true})
	d.expect(t, "a dry update")
	second := "2@" + write(set("2", ""), registry.UpdateOptions{}).Object.GetResourceVersion()
	d.expect(t, "an update", first+" > "+second)
	held := "3@" + write(func(_ context.Context, current registry.Object) (registry.Object, error) {
		c := current.DeepCopyObject().(*corev1.ConfigMap)
		c.Data, c.Finalizers = map[string]string{"v": "3"}, []string{"example.com/held"}
		return c, nil
	}, registry.UpdateOptions{Raw: true}).Object.GetResourceVersion()
	d.expect(t, "a raw update", second+" > "+held)

	_, _, err = res.Delete(ctx, "ns", "a", registry.DeleteOptions{DryRun: true})
	must(err)
	d.expect(t, "a dry delete")
	item, _, err := res.Delete(ctx, "ns", "a", registry.DeleteOptions{})
	must(err)
	going := "3@" + item.Object.GetResourceVersion()
	d.expect(t, "the beginning of a deletion", held+" > "+going)
	write(func(_ context.Context, current registry.Object) (registry.Object, error) {
		c := current.DeepCopyObject().(*corev1.ConfigMap)
		c.Finalizers = nil
		return c, nil
	}, registry.UpdateOptions{})
	d.expect(t, "its end", going+" > -")

	again, err := res.Create(ctx, config("a", "4"), registry.CreateOptions{})
	must(err)
	d.changes = nil
	_, _, err = res.Delete(ctx, "ns", "a", registry.DeleteOptions{DeleteOptions: metav1.DeleteOptions{}})
	must(err)
	d.expect(t, "a deletion at once", "4@"+again.Object.GetResourceVersion()+" > -")
}

// TestAfterOutcome: After is told of a create whose answer was lost once a read has shown that it was stored, and not of one
// that is not known to be.
func TestAfterOutcome(t *testing.T) {
	lost := errors.New("the connection was lost")
	for name, ended := range map[string]bool{"a read shows it": false, "the client is gone": true} {
		t.Run(name, func(t *testing.T) {
			d, store := &told{}, &forgetful{Store: memory.New(memory.Options{}), lost: lost}
			res := openKind(t, store, d.kind(), registry.Options{})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if ended {
				store.after = cancel
			}
			item, err := res.Create(ctx, config("a", "1"), registry.CreateOptions{})
			if ended {
				if !errors.Is(err, lost) {
					t.Error(err)
				}
				d.expect(t, "create")
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			d.expect(t, "create", "- > 1@"+item.Object.GetResourceVersion())
		})
	}
}

// departing deletes, and its client is gone then.
type departing struct {
	storage.Store
	leave func()
}

func (s *departing) Delete(ctx context.Context, key string, revision int64) (int64, error) {
	defer s.leave()
	return s.Store.Delete(ctx, key, revision)
}

// TestAfterClientLeft: After has a context of its own.
func TestAfterClientLeft(t *testing.T) {
	d, store := &told{}, &departing{Store: memory.New(memory.Options{})}
	res := openKind(t, store, d.kind(), registry.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	store.leave = cancel
	item, err := res.Create(ctx, config("a", "1"), registry.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	d.changes = nil
	_, _, _ = res.Delete(ctx, "ns", "a", registry.DeleteOptions{}) // the client will not know how it ended
	d.expect(t, "delete", "1@"+item.Object.GetResourceVersion()+" > -")
}
