package garbagecollector_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/internal/fakeapi"
)

// TestReadErrorIsNoAbsence: only "not found" says that an object is gone. As long as the server does not answer, or refuses to,
// nothing is deleted; then the collector goes on.
func TestReadErrorIsNoAbsence(t *testing.T) {
	resource := configMaps.GroupResource()
	for kind, failure := range map[string]error{
		"network":      errors.New("connection refused"),
		"forbidden":    apierrors.NewForbidden(resource, "x", errors.New("no")),
		"unauthorized": apierrors.NewUnauthorized("who?"),
		"internal":     apierrors.NewInternalError(errors.New("disk")),
		"unavailable":  apierrors.NewServiceUnavailable("starting"),
		"too many":     apierrors.NewTooManyRequestsError("later"),
		"timeout":      apierrors.NewServerTimeout(resource, "get", 1),
		"gone version": apierrors.NewResourceExpired("too old"),
	} {
		for _, unread := range []string{"other", "x"} { // the owner that is there, and what has dependents of its own
			t.Run(kind+" "+unread, func(t *testing.T) {
				var down atomic.Bool
				inBubble(t, func(_ *bench, a fakeapi.Action) error {
					if down.Load() && a.Verb == fakeapi.Get && a.Target.Name == unread {
						return failure
					}
					return nil
				}, func(t *testing.T, b *bench) {
					x := b.make("a/x", b.make("a/owner"), b.make("a/other"))
					b.make("a/leaf", x)
					down.Store(true)
					b.delete("a/owner", background)
					b.after(10 * time.Second)
					down.Store(false)
					if got, want := b.left(), "a/leaf<x a/other a/x<owner,other"; got != want {
						t.Errorf("while it cannot be read: left are %q, want %q", got, want)
					}
					b.after(time.Hour)
					b.wantLeft("when it can", "a/leaf<x a/other a/x<other")
				})
			})
		}
	}
}

// TestFinalizerIsTriedAgain: whatever fails when an owner is to be let go, it goes in the end.
func TestFinalizerIsTriedAgain(t *testing.T) {
	for name, verb := range map[string]string{"reading": fakeapi.Get, "writing": fakeapi.Patch} {
		for _, policy := range []metav1.DeletionPropagation{foreground, orphan} {
			t.Run(name+" "+string(policy), func(t *testing.T) {
				var down atomic.Bool
				down.Store(true)
				inBubble(t, func(_ *bench, a fakeapi.Action) error {
					if down.Load() && a.Verb == verb && a.Target.Name == "owner" {
						return errors.New("connection refused")
					}
					return nil
				}, func(t *testing.T, b *bench) {
					b.make("a/owner")
					b.delete("a/owner", policy)
					b.after(10 * time.Second)
					down.Store(false)
					if got := b.left(); got != "a/owner!" {
						t.Errorf("left are %q while the server is down", got)
					}
					b.after(time.Hour)
					b.wantLeft("the server is back", "")
				})
			})
		}
	}
}

// TestOwnerThatDoesNotGo: an owner with the finalizer of foreground deletion waits for nobody unless it is being deleted.
func TestOwnerThatDoesNotGo(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, b *bench) {
		stays := b.held("a/stays", []string{metav1.FinalizerDeleteDependents})
		b.make("a/x", b.make("a/owner"), stays)
		b.delete("a/owner", background)
		b.wantLeft("one owner is left", "a/stays a/x<stays")
	})
}

// swap puts another object of that name in the place of one, whatever held that.
func (b *bench) swap(name string, finalizers ...string) error {
	at, old := target(name), b.get(name)
	old.SetFinalizers(nil)
	if _, err := b.api.Update(b.Context(), at, old, metav1.UpdateOptions{}); err != nil {
		return err
	}
	if err := b.api.Delete(b.Context(), at, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	_, err := b.api.Create(b.Context(), client.Target{Resource: at.Resource, Namespace: at.Namespace}, newObject(name, nil, finalizers), metav1.CreateOptions{})
	return err
}

// TestReplacedInBetween: an object of the same name that came between two requests of the collector is none of its business.
func TestReplacedInBetween(t *testing.T) {
	for name, tt := range map[string]struct {
		before string // what is about to be done to a/x when another one comes
		run    func(*bench)
		want   string
		never  string // what the collector does not do
	}{
		"an owner is read": {"get", func(b *bench) {
			b.make("a/dependent", b.make("a/owner"), b.make("a/x"))
			b.delete("a/owner", background)
		}, "a/x", "patch configmaps a/dependent"},
		"it loses an owner": {"patch", func(b *bench) {
			b.make("a/x", b.make("a/owner"), b.make("a/other"))
			b.delete("a/owner", background)
		}, "a/other a/x", ""},
		"it is unblocked": {"patch", func(b *bench) {
			owner := b.make("a/owner")
			leaf := b.make("a/leaf", blocking(b.make("a/x", blocking(owner))))
			b.held("a/tip", []string{"example.com/hold"}, blocking(leaf))
			b.delete("a/leaf", foreground)
			b.delete("a/owner", foreground)
		}, "a/leaf<x! a/tip<leaf! a/x", ""},
		"it is let go": {"patch", func(b *bench) {
			b.make("a/x")
			b.delete("a/x", orphan)
		}, "a/x", ""},
	} {
		t.Run(name, func(t *testing.T) {
			swapped := false
			inBubble(t, func(b *bench, a fakeapi.Action) error {
				if a.Target.Name != "x" || a.Verb != tt.before || swapped {
					return nil
				}
				swapped = true
				return b.swap("a/x", metav1.FinalizerOrphanDependents)
			}, func(t *testing.T, b *bench) {
				tt.run(b)
				b.wantLeft("after the race", tt.want)
				b.after(time.Hour)
				b.wantLeft("later", tt.want)
				if got := b.get("a/x").GetFinalizers(); !slices.Equal(got, []string{metav1.FinalizerOrphanDependents}) || !swapped {
					t.Errorf("swapped %v, finalizers of the other one are %q", swapped, got)
				}
				for _, a := range b.api.Actions() {
					if a.String() == tt.never {
						t.Errorf("did %s", a)
					}
				}
			})
		})
	}
}

// TestReplacedBeforeTheSecondDeletion: a deletion that a label made conflict is tried without a resource version, but by uid.
func TestReplacedBeforeTheSecondDeletion(t *testing.T) {
	tries := 0
	inBubble(t, func(b *bench, a fakeapi.Action) error {
		if a.Verb != fakeapi.Delete || a.Target.Name != "x" {
			return nil
		}
		switch tries++; tries {
		case 1:
			obj := b.get("a/x")
			obj.SetLabels(map[string]string{"a": "b"})
			_, err := b.api.Update(b.Context(), target("a/x"), obj, metav1.UpdateOptions{})
			return err
		case 2:
			return b.swap("a/x")
		}
		return nil
	}, func(t *testing.T, b *bench) {
		b.make("a/x", b.make("a/owner"))
		b.delete("a/owner", background)
		b.after(time.Hour)
		b.wantLeft("after two races", "a/x")
	})
}

// TestLostUpdates: what others write between the collector's look and its own write stays.
func TestLostUpdates(t *testing.T) {
	t.Run("a finalizer that is gone", func(t *testing.T) {
		raced := false
		inBubble(t, func(b *bench, a fakeapi.Action) error {
			if a.Verb == fakeapi.Patch && a.Target.Name == "owner" && !raced {
				raced = true
				obj := b.get("a/owner")
				obj.SetFinalizers([]string{metav1.FinalizerOrphanDependents})
				_, err := b.api.Update(b.Context(), target("a/owner"), obj, metav1.UpdateOptions{})
				return err
			}
			return nil
		}, func(t *testing.T, b *bench) {
			b.held("a/owner", []string{"example.com/hold"})
			b.delete("a/owner", orphan)
			b.after(time.Hour)
			b.wantLeft("nothing holds it", "")
		})
	})
	t.Run("an owner that came", func(t *testing.T) {
		raced := false
		inBubble(t, func(b *bench, a fakeapi.Action) error {
			switch {
			case a.Verb != fakeapi.Patch || a.Target.Name != "x":
			case strings.Contains(string(a.Patch), "$patch"): // a kind without strategic merge
				return &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusUnsupportedMediaType, Reason: metav1.StatusReasonUnsupportedMediaType}}
			case !raced:
				raced = true
				obj := b.get("a/x")
				obj.SetOwnerReferences(append(obj.GetOwnerReferences(), refTo(b.get("a/third"))))
				_, err := b.api.Update(b.Context(), target("a/x"), obj, metav1.UpdateOptions{})
				return err
			}
			return nil
		}, func(t *testing.T, b *bench) {
			b.make("a/third")
			b.make("a/x", b.make("a/owner"), b.make("a/other"))
			b.delete("a/owner", background)
			b.after(time.Hour)
			b.wantLeft("one owner gone, one new", "a/other a/third a/x<other,third")
		})
	})
}
