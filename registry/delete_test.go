package registry_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/storage/memory"
)

// ruled returns the kind of ConfigMaps with the given rules.
func ruled(rules registry.Rules[*corev1.ConfigMap]) registry.Kind {
	return registry.Definition[*corev1.ConfigMap]{
		Names:        registry.Names{Kind: "ConfigMap", Plural: "configmaps", Singular: "configmap"},
		GroupVersion: corev1.SchemeGroupVersion, Namespaced: true,
		New:     func() *corev1.ConfigMap { return &corev1.ConfigMap{} },
		NewList: func() runtime.Object { return &corev1.ConfigMapList{} },
		Rules:   rules,
	}.Kind()
}

// graceful returns deletions with a grace period of 30 seconds, or what the client asks for.
func graceful() registry.Deletion[*corev1.ConfigMap] {
	return registry.Deletion[*corev1.ConfigMap]{Grace: func(_ *corev1.ConfigMap, asked *int64) int64 {
		if asked != nil {
			return *asked
		}
		return 30
	}}
}

// shelf is a registry with one object, a/x.
type shelf struct {
	t   *testing.T
	res *registry.Resource
}

// withShelf runs a test with one object, in virtual time.
func withShelf(t *testing.T, rules registry.Rules[*corev1.ConfigMap], finalizers []string, test func(t *testing.T, s *shelf)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{t, openKind(t, memory.New(memory.Options{}), ruled(rules), registry.Options{})}
		obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "x", Generation: 1, Finalizers: finalizers}}
		if _, err := s.res.Create(t.Context(), obj, registry.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		test(t, s)
	})
}

// delete deletes the object, asking for a grace period unless it is below -1.
func (s *shelf) delete(grace int64, change ...func(*registry.DeleteOptions)) bool {
	s.t.Helper()
	var o registry.DeleteOptions
	if grace >= -1 {
		o.GracePeriodSeconds = &grace
	}
	for _, c := range change {
		c(&o)
	}
	_, gone, err := s.res.Delete(s.t.Context(), "a", "x", o)
	if err != nil {
		s.t.Error(err)
	}
	return gone
}

// unasked asks for no particular grace period.
const unasked = -2

func (s *shelf) there() *corev1.ConfigMap {
	s.t.Helper()
	item, err := s.res.Get(s.t.Context(), "a", "x", "")
	if errors.Is(err, registry.ErrNotFound) {
		return nil
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return item.Object.(*corev1.ConfigMap)
}

// ends checks when the object's deletion is due, in seconds from now, and its grace period.
func (s *shelf) ends(in, grace int64) {
	s.t.Helper()
	obj := s.there()
	switch {
	case obj == nil:
		s.t.Error("the object was removed")
	case obj.DeletionTimestamp == nil || obj.DeletionGracePeriodSeconds == nil:
		s.t.Errorf("no deletion has begun: %+v", obj.ObjectMeta)
	case !obj.DeletionTimestamp.Time.Equal(time.Now().Truncate(time.Second).Add(time.Duration(in) * time.Second)):
		s.t.Errorf("its deletion is due in %v, want %d s", time.Until(obj.DeletionTimestamp.Time), in)
	case *obj.DeletionGracePeriodSeconds != grace:
		s.t.Errorf("its grace is %d s, want %d", *obj.DeletionGracePeriodSeconds, grace)
	}
}

// change updates the object.
func (s *shelf) change(f func(*corev1.ConfigMap)) {
	s.t.Helper()
	_, _, err := s.res.Update(s.t.Context(), "a", "x", func(_ context.Context, current registry.Object) (registry.Object, error) {
		obj := current.(*corev1.ConfigMap).DeepCopy()
		f(obj)
		return obj, nil
	}, registry.UpdateOptions{})
	if err != nil {
		s.t.Error(err)
	}
}

// expectGone checks that a delete reported the object as removed, and that it is.
func (s *shelf) expectGone(said bool) {
	s.t.Helper()
	if obj := s.there(); !said || obj != nil {
		s.t.Errorf("gone %v, there is %v", said, obj)
	}
}

func TestDeleteAtOnce(t *testing.T) {
	withShelf(t, registry.Rules[*corev1.ConfigMap]{}, nil, func(_ *testing.T, s *shelf) { s.expectGone(s.delete(unasked)) })
	withShelf(t, registry.Rules[*corev1.ConfigMap]{Deletion: graceful()}, nil, func(_ *testing.T, s *shelf) { s.expectGone(s.delete(0)) })
}

// TestGraceOnlyGetsShorter: a second delete cannot extend the grace period.
func TestGraceOnlyGetsShorter(t *testing.T) {
	withShelf(t, registry.Rules[*corev1.ConfigMap]{Deletion: graceful()}, nil, func(t *testing.T, s *shelf) {
		if s.delete(unasked) {
			t.Error("removed before its grace period is over")
		}
		s.ends(30, 30)
		if got := s.there().Generation; got != 2 {
			t.Errorf("its generation is %d, want 2", got)
		}
		time.Sleep(5 * time.Second)
		for _, longer := range []int64{unasked, 30, 31, 600} {
			s.delete(longer)
			s.ends(25, 30)
		}
		s.delete(20)
		s.ends(15, 20)
		s.delete(25)
		s.ends(15, 20)
		time.Sleep(10 * time.Second)
		s.delete(12) // which is over
		s.ends(0, 1)
		s.expectGone(s.delete(0))
	})
	withShelf(t, registry.Rules[*corev1.ConfigMap]{Deletion: graceful()}, nil, func(t *testing.T, s *shelf) {
		s.delete(-1)
		s.ends(1, 1)
	})
}

// TestHeldObjectsStay: by finalizers, by their grace period, or by the kind's own reasons; the last to go frees
// them.
func TestHeldObjectsStay(t *testing.T) {
	const one, other = "example.com/one", "example.com/other"
	withShelf(t, registry.Rules[*corev1.ConfigMap]{}, []string{one, other}, func(t *testing.T, s *shelf) {
		if s.delete(unasked) {
			t.Error("removed despite finalizers")
		}
		s.ends(0, 0)
		s.change(func(obj *corev1.ConfigMap) { obj.Finalizers = []string{other} })
		if obj := s.there(); obj == nil || !slices.Equal(obj.Finalizers, []string{other}) {
			t.Fatalf("there is %v", obj)
		}
		s.change(func(obj *corev1.ConfigMap) { obj.Finalizers = nil })
		s.expectGone(true)
	})
	withShelf(t, registry.Rules[*corev1.ConfigMap]{}, []string{one}, func(t *testing.T, s *shelf) {
		s.change(func(obj *corev1.ConfigMap) { obj.Finalizers = nil })
		if s.there() == nil {
			t.Error("removed though nobody deleted it")
		}
	})
	withShelf(t, registry.Rules[*corev1.ConfigMap]{Deletion: graceful()}, []string{one}, func(t *testing.T, s *shelf) {
		s.delete(unasked)
		s.change(func(obj *corev1.ConfigMap) { obj.Finalizers = nil })
		s.ends(30, 30)
		s.expectGone(s.delete(0))
	})
	withShelf(t, registry.Rules[*corev1.ConfigMap]{Deletion: graceful()}, []string{one}, func(t *testing.T, s *shelf) {
		s.delete(unasked)
		if s.delete(0) {
			t.Error("removed despite a finalizer")
		}
		s.ends(0, 0)
		s.change(func(obj *corev1.ConfigMap) { obj.Finalizers = nil })
		s.expectGone(true)
	})
	held := registry.Deletion[*corev1.ConfigMap]{Held: func(obj *corev1.ConfigMap) bool { return obj.Data["full"] != "" }}
	withShelf(t, registry.Rules[*corev1.ConfigMap]{Deletion: held}, nil, func(t *testing.T, s *shelf) {
		s.change(func(obj *corev1.ConfigMap) { obj.Data = map[string]string{"full": "yes"} })
		if s.delete(unasked) {
			t.Error("removed though it is held")
		}
		if obj := s.there(); obj == nil || obj.DeletionTimestamp == nil || obj.DeletionGracePeriodSeconds != nil {
			t.Fatalf("there is %+v", obj)
		}
		s.change(func(obj *corev1.ConfigMap) { obj.Labels = map[string]string{"a": "b"} })
		if s.there() == nil {
			t.Fatal("removed though it is held")
		}
		s.change(func(obj *corev1.ConfigMap) { obj.Data = nil })
		s.expectGone(true)
	})
}

// TestPropagation: a delete determines what happens to the dependents, and overrides earlier deletes.
func TestPropagation(t *testing.T) {
	with := func(p metav1.DeletionPropagation) func(*registry.DeleteOptions) {
		return func(o *registry.DeleteOptions) { o.PropagationPolicy = &p }
	}
	orphans := func(yes bool) func(*registry.DeleteOptions) {
		return func(o *registry.DeleteOptions) { o.OrphanDependents = &yes }
	}
	const own, orphan, foreground = "example.com/own", metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents
	for name, c := range map[string]struct {
		have []string
		ask  func(*registry.DeleteOptions)
		want []string // nil: the object is removed
	}{
		"orphan":                      {nil, with(metav1.DeletePropagationOrphan), []string{orphan}},
		"foreground":                  {nil, with(metav1.DeletePropagationForeground), []string{foreground}},
		"background":                  {nil, with(metav1.DeletePropagationBackground), nil},
		"orphan instead":              {[]string{foreground, own}, with(metav1.DeletePropagationOrphan), []string{own, orphan}},
		"foreground instead":          {[]string{orphan, own}, with(metav1.DeletePropagationForeground), []string{own, foreground}},
		"background instead":          {[]string{foreground}, with(metav1.DeletePropagationBackground), nil},
		"as it was":                   {[]string{orphan, own}, func(*registry.DeleteOptions) {}, []string{orphan, own}},
		"orphan in the old way":       {nil, orphans(true), []string{orphan}},
		"orphan instead, the old way": {[]string{foreground}, orphans(true), []string{orphan}},
		"not orphaned in the old way": {[]string{orphan}, orphans(false), nil},
	} {
		t.Run(name, func(t *testing.T) {
			withShelf(t, registry.Rules[*corev1.ConfigMap]{}, c.have, func(t *testing.T, s *shelf) {
				gone := s.delete(unasked, c.ask)
				if c.want == nil {
					s.expectGone(gone)
				} else if obj := s.there(); gone || obj == nil || !slices.Equal(obj.Finalizers, c.want) {
					t.Errorf("gone %v, there is %v", gone, obj)
				}
			})
		})
	}
}

// TestOrphansByDefault: deletes of a kind with Orphans that do not say what becomes of dependents preserve them, unless an
// earlier one did, and the client is told.
func TestOrphansByDefault(t *testing.T) {
	const own, orphan, foreground = "example.com/own", metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents
	background, yes := metav1.DeletePropagationBackground, true
	for name, c := range map[string]struct {
		have   []string
		o      metav1.DeleteOptions
		want   []string // nil: the object is removed
		silent bool
	}{
		"unasked":               {want: []string{orphan}},
		"with others":           {have: []string{own}, want: []string{own, orphan}},
		"an earlier foreground": {have: []string{foreground}, want: []string{foreground}},
		"an earlier orphan":     {have: []string{orphan}, want: []string{orphan}},
		"background":            {o: metav1.DeleteOptions{PropagationPolicy: &background}, silent: true},
		"as asked":              {o: metav1.DeleteOptions{OrphanDependents: &yes}, want: []string{orphan}, silent: true},
	} {
		t.Run(name, func(t *testing.T) {
			rules := registry.Rules[*corev1.ConfigMap]{Deletion: registry.Deletion[*corev1.ConfigMap]{Orphans: true, OrphansWarning: "preserved"}}
			withShelf(t, rules, c.have, func(t *testing.T, s *shelf) {
				var told []string
				ctx := registry.WithWarnings(t.Context(), func(text string) { told = append(told, text) })
				_, gone, err := s.res.Delete(ctx, "a", "x", registry.DeleteOptions{DeleteOptions: c.o})
				if err != nil {
					t.Fatal(err)
				}
				if c.want == nil {
					s.expectGone(gone)
				} else if obj := s.there(); gone || obj == nil || !slices.Equal(obj.Finalizers, c.want) {
					t.Errorf("gone %v, there is %v", gone, obj)
				}
				if silent := len(told) == 0; silent != c.silent || !silent && !slices.Equal(told, []string{"preserved"}) {
					t.Errorf("told %v", told)
				}
			})
		})
	}
}

// TestDeleteIsRefused: for another object of the name, for another state of it, or by the caller's Admit; and a
// dry run deletes nothing.
func TestDeleteIsRefused(t *testing.T) {
	refusal := errors.New("not this one")
	withShelf(t, registry.Rules[*corev1.ConfigMap]{}, nil, func(t *testing.T, s *shelf) {
		obj := s.there()
		otherUID, otherVersion := types.UID("other"), "1"
		for name, c := range map[string]struct {
			o    registry.DeleteOptions
			want error
		}{
			"UID":     {registry.DeleteOptions{DeleteOptions: metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &otherUID}}}, registry.ErrConflict},
			"version": {registry.DeleteOptions{DeleteOptions: metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &obj.UID, ResourceVersion: &otherVersion}}}, registry.ErrConflict},
			"admission": {registry.DeleteOptions{Admit: func(_ context.Context, now registry.Object) error {
				if now.GetUID() != obj.UID {
					t.Errorf("asked about %v", now)
				}
				return refusal
			}}, refusal},
			"dry run": {registry.DeleteOptions{DryRun: true}, nil},
		} {
			if _, gone, err := s.res.Delete(t.Context(), "a", "x", c.o); !errors.Is(err, c.want) || gone != (c.want == nil) {
				t.Errorf("%s: gone %v, %v", name, gone, err)
			}
			if s.there() == nil {
				t.Fatalf("%s: the object was removed", name)
			}
		}
		s.expectGone(s.delete(unasked, func(o *registry.DeleteOptions) {
			o.Preconditions = &metav1.Preconditions{UID: &obj.UID, ResourceVersion: &obj.ResourceVersion}
		}))
		if _, _, err := s.res.Delete(t.Context(), "a", "x", registry.DeleteOptions{}); !errors.Is(err, registry.ErrNotFound) {
			t.Errorf("once more: %v", err)
		}
	})
}

// TestWriteIsRefused: an object that may not be stored is not, whether it is new or existed before.
func TestWriteIsRefused(t *testing.T) {
	refusal := errors.New("not this one")
	refuse := func(obj *corev1.ConfigMap) error {
		if obj.Data["bad"] != "" {
			return refusal
		}
		return nil
	}
	rules := registry.Rules[*corev1.ConfigMap]{Guard: func(_ context.Context, obj, _ *corev1.ConfigMap) error { return refuse(obj) }}
	bad := map[string]string{"bad": "yes"}
	deny := func(context.Context, registry.Object) error { return refusal }
	withShelf(t, rules, nil, func(t *testing.T, s *shelf) {
		create := func(obj corev1.ConfigMap, name string, o registry.CreateOptions) error {
			obj.Namespace, obj.Name = "a", name
			_, err := s.res.Create(t.Context(), &obj, o)
			return err
		}
		versioned := corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "1"}}
		for name, c := range map[string]struct {
			err  error
			want error
		}{
			"guard":              {create(corev1.ConfigMap{Data: bad}, "new", registry.CreateOptions{}), refusal},
			"admission":          {create(corev1.ConfigMap{}, "new", registry.CreateOptions{Admit: deny}), refusal},
			"dry run":            {create(corev1.ConfigMap{}, "new", registry.CreateOptions{DryRun: true}), nil},
			"there":              {create(corev1.ConfigMap{}, "x", registry.CreateOptions{}), registry.ErrExists},
			"there in a dry run": {create(corev1.ConfigMap{}, "x", registry.CreateOptions{DryRun: true}), registry.ErrExists},
		} {
			if !errors.Is(c.err, c.want) {
				t.Errorf("create, %s: %v", name, c.err)
			}
		}
		if err := create(versioned, "new", registry.CreateOptions{}); err == nil {
			t.Error("an object with a version was created")
		}
		if _, err := s.res.Get(t.Context(), "a", "new", ""); !errors.Is(err, registry.ErrNotFound) {
			t.Errorf("a refused write was stored: %v", err)
		}

		before := s.there()
		update := func(f func(*corev1.ConfigMap), o registry.UpdateOptions) error {
			_, _, err := s.res.Update(t.Context(), "a", "x", func(_ context.Context, current registry.Object) (registry.Object, error) {
				obj := current.(*corev1.ConfigMap).DeepCopy()
				obj.Data = map[string]string{"new": "yes"}
				f(obj)
				return obj, nil
			}, o)
			return err
		}
		same := func(*corev1.ConfigMap) {}
		for name, c := range map[string]struct {
			err  error
			want error
		}{
			"guard":   {update(func(obj *corev1.ConfigMap) { obj.Data = bad }, registry.UpdateOptions{}), refusal},
			"UID":     {update(func(obj *corev1.ConfigMap) { obj.UID = "other" }, registry.UpdateOptions{}), registry.ErrConflict},
			"version": {update(func(obj *corev1.ConfigMap) { obj.ResourceVersion = "1" }, registry.UpdateOptions{}), registry.ErrConflict},
			"dry run": {update(same, registry.UpdateOptions{DryRun: true}), nil},
			"admission": {update(same, registry.UpdateOptions{
				Admit: func(_ context.Context, _, _ registry.Object) error { return refusal },
			}), refusal},
		} {
			if !errors.Is(c.err, c.want) {
				t.Errorf("update, %s: %v", name, c.err)
			}
		}
		if err := update(func(obj *corev1.ConfigMap) { obj.ResourceVersion = "x" }, registry.UpdateOptions{}); err == nil {
			t.Error("an object with an invalid version was written")
		}
		if after := s.there(); after.ResourceVersion != before.ResourceVersion || after.Data != nil {
			t.Errorf("what was refused is there: %v", after)
		}
		if err := update(same, registry.UpdateOptions{}); err != nil || s.there().Data["new"] != "yes" {
			t.Errorf("a permitted update: %v, %v", err, s.there())
		}
	})
}
