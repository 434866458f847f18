package registry_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	policyv1beta1 "k8s.io/api/policy/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/codec"
	"github.com/keelson-dev/keelson/registry/policy"
	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/memory"
)

// TestDeleteThatIsNotSeen: a client that leaves before its delete is seen does not get it as done.
func TestDeleteThatIsNotSeen(t *testing.T) {
	held := &hooked{Store: memory.New(memory.Options{})}
	store := &departing{Store: held}
	res := open(t, store, registry.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	store.leave = cancel
	if _, err := res.Create(ctx, config("a", "1"), registry.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	held.held.Lock()
	_, _, err := res.Delete(ctx, "ns", "a", registry.DeleteOptions{})
	held.held.Unlock()
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestDeletionDoesNotBeginAgain: a second delete of what only finalizers hold is no other deletion.
func TestDeletionDoesNotBeginAgain(t *testing.T) {
	withShelf(t, registry.Rules[*corev1.ConfigMap]{Deletion: graceful()}, []string{"example.com/x"}, func(t *testing.T, s *shelf) {
		s.delete(0)
		generation := s.there().Generation
		time.Sleep(10 * time.Second)
		if s.delete(30) {
			t.Error("it is gone")
		}
		if s.ends(-10, 0); s.there().Generation != generation {
			t.Errorf("generation %d, was %d", s.there().Generation, generation)
		}
	})
}

// TestGenerationAfterDelete: a delete raises the generation of what has one, and of nothing else.
func TestGenerationAfterDelete(t *testing.T) {
	res := open(t, memory.New(memory.Options{}), registry.Options{})
	for generation, want := range map[int64]int64{0: 0, 1: 2, 7: 8} {
		obj := config("g"+strconv.FormatInt(generation, 10), "1")
		obj.Generation, obj.Finalizers = generation, []string{"example.com/x"}
		if _, err := res.Create(t.Context(), obj, registry.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		item, gone, err := res.Delete(t.Context(), "ns", obj.Name, registry.DeleteOptions{})
		if err != nil || gone || item.Object.GetGeneration() != want {
			t.Errorf("generation %d became %v, gone %t, %v", generation, item, gone, err)
		}
	}
}

// undeletable fails to delete.
type undeletable struct {
	storage.Store
	err error
}

func (s undeletable) Delete(context.Context, string, int64) (int64, error) { return 0, s.err }

// TestExpiryOfOthers: what somebody else has deleted or changed before it expired is no trouble, other failures are logged.
func TestExpiryOfOthers(t *testing.T) {
	for err, logged := range map[error]bool{storage.ErrNotFound: false, storage.ErrConflict: false, errors.New("broken"): true} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			kind := configMaps()
			kind.TTL = time.Hour
			res := openKind(t, undeletable{memory.New(memory.Options{}), err}, kind, registry.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			if _, err := res.Create(t.Context(), config("a", "1"), registry.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Hour)
			synctest.Wait()
			if strings.Contains(log.String(), "cannot delete an expired object") != logged {
				t.Errorf("%v: logged %q", err, log.String())
			}
		})
	}
}

// TestCreationTime: an object says to the second when it was created.
func TestCreationTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		res := open(t, memory.New(memory.Options{}), registry.Options{})
		time.Sleep(3700 * time.Millisecond)
		item, err := res.Create(t.Context(), config("a", "1"), registry.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if at := item.Object.GetCreationTimestamp(); !at.Time.Equal(time.Now().Truncate(time.Second)) {
			t.Errorf("created at %v, now it is %v", at, time.Now())
		}
	})
}

// TestUpdateOfNothing: an update that only sets what is never stored changes nothing.
func TestUpdateOfNothing(t *testing.T) {
	res := open(t, memory.New(memory.Options{}), registry.Options{})
	made, err := res.Create(t.Context(), config("a", "1"), registry.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	item, _, err := res.Update(t.Context(), "ns", "a", func(_ context.Context, current registry.Object) (registry.Object, error) {
		obj := current.DeepCopyObject().(registry.Object)
		obj.SetSelfLink("/api/v1/namespaces/ns/configmaps/a")
		return obj, nil
	}, registry.UpdateOptions{})
	if err != nil || item.Revision != made.Revision {
		t.Errorf("updated to %v, %v", item, err)
	}
}

// TestGraceIsNotUpdated: an update cannot change how long a deletion takes.
func TestGraceIsNotUpdated(t *testing.T) {
	withShelf(t, registry.Rules[*corev1.ConfigMap]{Deletion: graceful()}, nil, func(t *testing.T, s *shelf) {
		s.delete(30)
		_, _, err := s.res.Update(t.Context(), "a", "x", func(_ context.Context, current registry.Object) (registry.Object, error) {
			obj := current.DeepCopyObject().(registry.Object)
			obj.SetDeletionGracePeriodSeconds(new(int64(5)))
			return obj, nil
		}, registry.UpdateOptions{})
		if !errors.Is(err, registry.ErrInvalid) || !strings.Contains(err.Error(), "metadata.deletionGracePeriodSeconds") {
			t.Errorf("got %v", err)
		}
		s.change(func(obj *corev1.ConfigMap) { obj.DeletionGracePeriodSeconds = nil })
		s.ends(30, 30)
	})
}

// TestRemainingAfterPending: when the last pending object is gone, lists say again how many objects follow.
func TestRemainingAfterPending(t *testing.T) {
	s := openStage(t)
	for _, name := range []string{"a", "b", "c"} {
		if err := s.make(name, nil, true); err != nil {
			t.Fatal(err)
		}
	}
	s.begin("x")
	if _, _, err := s.Delete(t.Context(), "a", "x", registry.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	l, err := s.List(t.Context(), registry.ListOptions{Limit: 1})
	if err != nil || len(l.Items) != 1 || l.Remaining == nil || *l.Remaining != 2 {
		t.Errorf("listed %+v, %v", l, err)
	}
}

// TestCreatorWaitsBeyondKind: a creator goes on waiting for its object when the kind is installed anew.
func TestCreatorWaitsBeyondKind(t *testing.T) {
	for _, complete := range []bool{false, true} { // before the creator looks again
		synctest.Test(t, func(t *testing.T) {
			reg, res := openRegistry(t, memory.New(memory.Options{}))
			told := make(chan error, 1)
			go func() { told <- stage{t, res}.make("x", map[string]string{"wait": "1"}, true) }()
			synctest.Wait()
			next, err := reg.Install(t.Context(), configMaps())
			if err != nil {
				t.Fatal(err)
			}
			if !complete {
				synctest.Wait()
			}
			if len(told) > 0 {
				t.Fatalf("it waits no longer: %v", <-told)
			}
			stage{t, next}.set("x", map[string]string{"n": "1"})
			if err := <-told; err != nil {
				t.Error(err)
			}
		})
	}
}

// paired is a store whose streams show two changes at a time, as if they had been made at once.
type paired struct{ *memory.Store }

func (p paired) Watch(ctx context.Context, prefix string, after int64) (storage.Stream, error) {
	s, err := p.Store.Watch(ctx, prefix, after)
	return &pairedStream{Stream: s}, err
}

type pairedStream struct {
	storage.Stream
	first []storage.Event
}

func (s *pairedStream) Next(ctx context.Context) ([]storage.Event, error) {
	for {
		events, err := s.Stream.Next(ctx)
		if err != nil {
			return nil, err
		}
		for _, e := range events {
			if e.Type != storage.Progress {
				s.first = append(s.first, e)
			}
		}
		if both := s.first; len(both) == 2 {
			both[0].Revision, s.first = both[1].Revision, nil
			return both, nil
		}
	}
}

// TestChangesAtOnce: objects of two kinds that were changed at the same revision are both changed.
func TestChangesAtOnce(t *testing.T) {
	store := paired{memory.New(memory.Options{})}
	secrets := registry.Definition[*corev1.Secret]{
		Names:        registry.Names{Kind: "Secret", Plural: "secrets", Singular: "secret"},
		GroupVersion: corev1.SchemeGroupVersion, Namespaced: true,
		New:     func() *corev1.Secret { return &corev1.Secret{} },
		NewList: func() runtime.Object { return &corev1.SecretList{} },
	}.Kind()
	reg := run(t, store, configMaps(), secrets)
	var last int64
	for _, kind := range []registry.Kind{configMaps(), secrets} {
		data := `{"apiVersion":"v1","kind":"` + kind.Names.Kind + `","metadata":{"namespace":"ns","name":"a"}}`
		revision, err := store.Create(t.Context(), registry.Root+kind.Plural+"/ns/a", []byte(data))
		if err != nil {
			t.Fatal(err)
		}
		last = revision
	}
	for _, kind := range []registry.Kind{configMaps(), secrets} {
		res, _ := reg.Resource(kind.GroupResource())
		if _, err := res.Get(t.Context(), "ns", "a", strconv.FormatInt(last, 10)); err != nil {
			t.Error(err)
		}
	}
}

// TestOlderIsWrittenAnew: an update without effect still brings what an earlier server stored into the form of today.
func TestOlderIsWrittenAnew(t *testing.T) {
	store := memory.New(memory.Options{})
	value, err := codec.JSON(policyv1beta1.SchemeGroupVersion.WithKind("PodDisruptionBudget"),
		&policyv1beta1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "x", UID: "u"}})
	if err != nil {
		t.Fatal(err)
	}
	const key = registry.Root + "poddisruptionbudgets/n/x"
	if _, err := store.Create(t.Context(), key, value); err != nil {
		t.Fatal(err)
	}
	reg := startRegistry(t, store, policy.Kinds())
	res, _ := reg.Resource(policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets").GroupResource())
	for _, rewritten := range []bool{true, false} {
		before, err := store.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := res.Update(t.Context(), "n", "x", func(_ context.Context, current registry.Object) (registry.Object, error) {
			return current.DeepCopyObject().(registry.Object), nil
		}, registry.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		rec, err := store.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		gvk, err := codec.Type(rec.Value)
		if err != nil || gvk.GroupVersion() != policyv1.SchemeGroupVersion || (rec.Revision > before.Revision) != rewritten {
			t.Errorf("stored as %v at revision %d after %d, %v", gvk, rec.Revision, before.Revision, err)
		}
	}
}
