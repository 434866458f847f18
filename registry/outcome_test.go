package registry_test

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/status"
	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/memory"
)

// forgetful stores what it is told to and says that it failed.
type forgetful struct {
	storage.Store
	lost   error
	before func() // called before a create
	after  func() // called after a create
}

func (s *forgetful) Create(ctx context.Context, key string, value []byte) (int64, error) {
	if s.before != nil {
		s.before()
	}
	revision, err := s.Store.Create(ctx, key, value)
	if s.after != nil {
		s.after()
	}
	if s.lost != nil {
		return 0, s.lost
	}
	return revision, err
}

// TestCreateOutcome: a create whose outcome the store does not tell, or that finds the name taken, is resolved by a read.
func TestCreateOutcome(t *testing.T) {
	lost := errors.New("the connection was lost")
	for name, test := range map[string]struct {
		lost   error
		before bool // the name was taken before, under the same UID
		others bool // the name was taken in between, under the same UID, by an object with another text
		ended  bool // the client is gone
		want   error
		line   string
	}{
		"written, and the answer lost":             {lost, false, false, false, nil, "create: written"},
		"written, and refused when asked again":    {storage.ErrExists, false, false, false, nil, "create: written"},
		"the name was taken":                       {storage.ErrExists, true, false, false, registry.ErrExists, "create: not written"},
		"the name was taken, and the answer lost":  {lost, true, false, false, lost, "create: unknown"},
		"another server came first":                {storage.ErrExists, false, true, false, registry.ErrExists, "create: not written"},
		"written, the answer lost and nobody asks": {lost, false, false, true, lost, "create: unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			under := memory.New(memory.Options{})
			if test.before {
				first, _ := openKinds(t, under, (&diary{}).notes()).Resource(configMapsResource)
				if _, err := first.Create(t.Context(), note("a", "x"), registry.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			store, d := &forgetful{Store: under, lost: test.lost}, &diary{}
			r, _ := openKinds(t, store, d.notes()).Resource(configMapsResource) // whose UIDs are the same again
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			switch {
			case test.ended:
				store.before = cancel
			case test.others:
				other, _ := openKinds(t, under, (&diary{}).notes()).Resource(configMapsResource)
				store.before = func() {
					if _, err := other.Create(t.Context(), note("a", "y"), registry.CreateOptions{}); err != nil {
						t.Error(err)
					}
				}
			}
			item, err := r.Create(ctx, note("a", "x"), registry.CreateOptions{})
			if !errors.Is(err, test.want) || test.want == nil && (err != nil || item.Object.GetName() != "a" || item.Revision == 0) {
				t.Errorf("%v, %v, want %v", item, err, test.want)
			}
			if len(d.lines) != 1 || d.lines[0] != test.line {
				t.Errorf("settled: %q, want %s", d.lines, test.line)
			}
		})
	}
}

// TestCreateOutcomeAfterOthers: a create whose answer was lost succeeds with what it wrote, though others have changed or
// removed the object since, as long as the history tells.
func TestCreateOutcomeAfterOthers(t *testing.T) {
	lost := errors.New("the connection was lost")
	edit := func(_ context.Context, current registry.Object) (registry.Object, error) {
		c := current.DeepCopyObject().(*corev1.ConfigMap)
		c.Data["text"] = "edited"
		return c, nil
	}
	for name, test := range map[string]struct {
		history int // 0: the default
		since   func(ctx context.Context, other *registry.Resource) error
		want    error
	}{
		"changed": {0, func(ctx context.Context, other *registry.Resource) error {
			_, _, err := other.Update(ctx, "ns", "a", edit, registry.UpdateOptions{})
			return err
		}, nil},
		"changed, and the history is gone": {1, func(ctx context.Context, other *registry.Resource) error {
			_, _, err := other.Update(ctx, "ns", "a", edit, registry.UpdateOptions{})
			return err
		}, lost},
		"untouched, and the history is gone": {1, func(ctx context.Context, other *registry.Resource) error {
			_, err := other.Create(ctx, note("b", "x"), registry.CreateOptions{})
			return err
		}, nil},
		"removed": {0, func(ctx context.Context, other *registry.Resource) error {
			_, _, err := other.Delete(ctx, "ns", "a", registry.DeleteOptions{})
			return err
		}, nil},
		"replaced": {0, func(ctx context.Context, other *registry.Resource) error {
			if _, _, err := other.Delete(ctx, "ns", "a", registry.DeleteOptions{}); err != nil {
				return err
			}
			_, err := other.Create(ctx, note("a", "another"), registry.CreateOptions{})
			return err
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			under := memory.New(memory.Options{})
			other, _ := openKinds(t, under, (&diary{}).notes()).Resource(configMapsResource)
			store := &forgetful{Store: under, lost: lost, after: func() {
				if err := test.since(t.Context(), other); err != nil {
					t.Error(err)
				}
			}}
			r := openWith(t, store, registry.Options{History: test.history}, (&diary{}).notes())
			res, _ := r.Resource(configMapsResource)
			item, err := res.Create(t.Context(), note("a", "x"), registry.CreateOptions{})
			if !errors.Is(err, test.want) {
				t.Fatalf("%v, want %v", err, test.want)
			}
			if test.want == nil && (err != nil || item.Object.(*corev1.ConfigMap).Data["text"] != "x" || item.Revision == 0) {
				t.Errorf("%v, %v", item, err)
			}
		})
	}
}

// TestTakenByTerminating: whoever finds a name taken learns that the object is going.
func TestTakenByTerminating(t *testing.T) {
	r, _ := openKinds(t, memory.New(memory.Options{}), (&diary{}).notes()).Resource(configMapsResource)
	held := note("a", "x")
	held.Finalizers = []string{"example.com/hold"}
	if _, err := r.Create(t.Context(), held, registry.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	check := func(want string) {
		t.Helper()
		for _, dry := range []bool{false, true} {
			_, err := r.Create(t.Context(), note("a", "y"), registry.CreateOptions{DryRun: dry})
			if s := status.Of(err); s.Message != want || s.Reason != metav1.StatusReasonAlreadyExists || s.Code != 409 || s.Details.Name != "a" {
				t.Errorf("dry run %t: %v, want %s", dry, s, want)
			}
		}
	}
	check(`configmaps "a" already exists`)
	if _, _, err := r.Delete(t.Context(), "ns", "a", registry.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	check(`object is being deleted: configmaps "a" already exists`)
}
