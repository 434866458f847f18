package registry_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/policy"
	"github.com/keelson-dev/keelson/registry/registrytest"
	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/memory"
)

// tallied counts the calls of a store, and changes what it returns.
type tallied struct {
	storage.Store
	get                    func(storage.Record, error) (storage.Record, error)
	delete                 func() error
	gets, updates, deletes int
}

func (s *tallied) Get(ctx context.Context, key string) (storage.Record, error) {
	s.gets++
	rec, err := s.Store.Get(ctx, key)
	if s.get != nil {
		return s.get(rec, err)
	}
	return rec, err
}

func (s *tallied) Update(ctx context.Context, key string, value []byte, expected int64) (int64, error) {
	s.updates++
	return s.Store.Update(ctx, key, value, expected)
}

func (s *tallied) Delete(ctx context.Context, key string, expected int64) (int64, error) {
	s.deletes++
	if s.delete != nil {
		if err := s.delete(); err != nil {
			return 0, err
		}
	}
	return s.Store.Delete(ctx, key, expected)
}

// TestRetriesAreFew: of many records that cannot be read, a few are tried at a time, and none is written.
func TestRetriesAreFew(t *testing.T) {
	for name, prefix := range map[string]string{"no key for them": "blind", "no objects": "garbage"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner := memory.New(memory.Options{})
				for n := range 100 {
					if _, err := inner.Create(t.Context(), fmt.Sprintf("/registry/configmaps/ns/%s-%d", prefix, n), []byte("k8s\x00garbage")); err != nil {
						t.Fatal(err)
					}
				}
				store := &tallied{Store: &blind{Store: inner}}
				res := open(t, store, registry.Options{})
				time.Sleep(6 * time.Second)
				synctest.Wait()
				if store.gets != 16 || store.updates != 0 || len(res.Unreadable("")) != 100 {
					t.Errorf("tried %d, wrote %d; %d cannot be read", store.gets, store.updates, len(res.Unreadable("")))
				}
			})
		})
	}
}

// TestRetryOfOthers: a record that somebody else has just written is not written again.
func TestRetryOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := memory.New(memory.Options{})
		create(t, open(t, inner, registry.Options{}), "ns", "blind", nil)
		sight := &blind{Store: inner}
		store := &tallied{Store: sight, get: func(rec storage.Record, err error) (storage.Record, error) {
			rec.Revision++
			return rec, err
		}}
		open(t, store, registry.Options{})
		sight.see()
		time.Sleep(6 * time.Second)
		synctest.Wait()
		if store.gets == 0 || store.updates != 0 {
			t.Errorf("tried %d times, wrote %d times", store.gets, store.updates)
		}
	})
}

// TestUnsafeDeleteFails: a record that cannot be read is deleted in spite of other writers, but not of a store that fails, or
// of a client that has left.
func TestUnsafeDeleteFails(t *testing.T) {
	broken := errors.New("broken")
	ignore := true
	o := registry.DeleteOptions{DeleteOptions: metav1.DeleteOptions{IgnoreStoreReadErrorWithClusterBreakingPotential: &ignore}}
	openBlind := func(t *testing.T, store *tallied) *registry.Resource {
		t.Helper()
		inner := memory.New(memory.Options{})
		create(t, open(t, inner, registry.Options{}), "ns", "blind", nil)
		store.Store = &blind{Store: inner}
		return open(t, store, registry.Options{})
	}
	for name, c := range map[string]struct {
		errs    []error
		want    error
		deletes int
	}{
		"at once":          {nil, nil, 1},
		"a conflict":       {[]error{storage.ErrConflict}, nil, 2},
		"a failure":        {[]error{broken}, broken, 1},
		"one, then other":  {[]error{storage.ErrConflict, broken}, broken, 2},
		"a lost race, two": {[]error{storage.ErrConflict, storage.ErrConflict}, nil, 3},
	} {
		t.Run(name, func(t *testing.T) {
			errs := c.errs
			store := &tallied{delete: func() (err error) {
				if len(errs) > 0 {
					err, errs = errs[0], errs[1:]
				}
				return err
			}}
			res := openBlind(t, store)
			_, gone, err := res.Delete(t.Context(), "ns", "blind", o)
			if !errors.Is(err, c.want) || gone != (c.want == nil) || store.deletes != c.deletes {
				t.Errorf("gone %t, %v, after %d calls", gone, err, store.deletes)
			}
			if left := len(res.Unreadable("")); (left == 0) != gone {
				t.Errorf("%d cannot be read", left)
			}
		})
	}
	t.Run("a client that leaves", func(t *testing.T) {
		ctx, leave := context.WithCancel(t.Context())
		inner := memory.New(memory.Options{})
		create(t, open(t, inner, registry.Options{}), "ns", "blind", nil)
		held := &hooked{Store: inner}
		res := open(t, &departing{Store: blinded{held}, leave: leave}, registry.Options{})
		held.held.Lock()
		_, _, err := res.Delete(ctx, "ns", "blind", o)
		held.held.Unlock()
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}

// blinded cannot read what it lists.
type blinded struct{ storage.Store }

func (b blinded) List(ctx context.Context, prefix string, o storage.ListOptions) (storage.Page, error) {
	page, err := b.Store.List(ctx, prefix, o)
	for i := range page.Records {
		page.Records[i].Value, page.Records[i].Err = nil, storage.ErrUnreadable
	}
	return page, err
}

// same is an update that changes nothing.
func same(_ context.Context, current registry.Object) (registry.Object, error) {
	return current.DeepCopyObject().(registry.Object), nil
}

// TestUpdateOfWhatCannotBeRead: an update that changes nothing writes a record anew only if it is there, can be read and is in
// another form. A store that fails is told of.
func TestUpdateOfWhatCannotBeRead(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		get     func(storage.Record, error) (storage.Record, error)
		want    error
		updates int
	}{
		"as it is":   {func(rec storage.Record, err error) (storage.Record, error) { return rec, err }, nil, 0},
		"in another": {func(rec storage.Record, err error) (storage.Record, error) { rec.Value = []byte("{}"); return rec, err }, nil, 1},
		"no key for it": {func(rec storage.Record, err error) (storage.Record, error) {
			rec.Value, rec.Err = nil, storage.ErrUnreadable
			return rec, err
		}, nil, 0},
		"a failure":      {func(storage.Record, error) (storage.Record, error) { return storage.Record{}, broken }, broken, 0},
		"no longer here": {func(storage.Record, error) (storage.Record, error) { return storage.Record{}, storage.ErrNotFound }, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			kind := registrytest.Find(t, policy.Kinds(), "poddisruptionbudgets")
			store := &tallied{Store: memory.New(memory.Options{})}
			res, _ := startRegistry(t, store, []registry.Kind{kind}).Resource(kind.GroupResource())
			_, err := res.Create(t.Context(), &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "x"}}, registry.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			store.get = c.get
			if _, _, err := res.Update(t.Context(), "n", "x", same, registry.UpdateOptions{}); !errors.Is(err, c.want) || store.updates != c.updates {
				t.Errorf("%v, %d updates", err, store.updates)
			}
		})
	}
}

// TestUpdateOfOneForm: an update that changes nothing reads the store only if there may be another form: an older version, or
// one that the kind knows itself.
func TestUpdateOfOneForm(t *testing.T) {
	own := configMaps()
	own.DecodeStored = func(data []byte) (registry.Object, error) {
		obj := config("a", string(data[len(data)-1:]))
		obj.UID = "1"
		return obj, nil
	}
	for name, c := range map[string]struct {
		kind          registry.Kind
		gets, updates int
	}{"one form": {configMaps(), 0, 0}, "the kind's own": {own, 1, 1}} {
		t.Run(name, func(t *testing.T) {
			store := &tallied{Store: memory.New(memory.Options{})}
			const stored = `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"namespace":"ns","name":"a","uid":"1"},"data":{"v":"1"}} `
			if _, err := store.Create(t.Context(), "/registry/configmaps/ns/a", []byte(stored)); err != nil {
				t.Fatal(err)
			}
			res := openKind(t, store, c.kind, registry.Options{})
			if _, _, err := res.Update(t.Context(), "ns", "a", same, registry.UpdateOptions{}); err != nil || store.gets != c.gets || store.updates != c.updates {
				t.Errorf("%v, %d reads and %d updates", err, store.gets, store.updates)
			}
		})
	}
}
