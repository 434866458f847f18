package registry_test

import (
	"context"
	"errors"
	"testing"

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
}

func (s *forgetful) Create(ctx context.Context, key string, value []byte) (int64, error) {
	if s.before != nil {
		s.before()
	}
	revision, err := s.Store.Create(ctx, key, value)
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
