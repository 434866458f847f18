package garbagecollector_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/informer"
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
				inBubble(t, nil, func(b *bench) {
					x := b.make("a/x", b.make("a/owner"), b.make("a/other"))
					b.make("a/leaf", x)
					b.api.Inject(faults.Fault{Verb: faults.Get, Name: unread, Err: failure, Times: -1})
					b.delete("a/owner", background)
					b.after(10 * time.Second)
					b.api.Heal()
					if got, want := b.left(), "a/leaf<x a/other a/x<owner,other"; got != want {
						b.Errorf("while it cannot be read: left are %q, want %q", got, want)
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
	for name, verb := range map[string]string{"reading": faults.Get, "writing": faults.Patch} {
		for _, policy := range []metav1.DeletionPropagation{foreground, orphan} {
			t.Run(name+" "+string(policy), func(t *testing.T) {
				inBubble(t, nil, func(b *bench) {
					b.api.Inject(faults.Fault{Verb: verb, Name: "owner", Err: errors.New("connection refused"), Times: -1})
					b.make("a/owner")
					b.delete("a/owner", policy)
					b.after(10 * time.Second)
					b.api.Heal()
					if got := b.left(); got != "a/owner!" {
						b.Errorf("left are %q while the server is down", got)
					}
					b.after(time.Hour)
					b.wantLeft("the server is back", "")
				})
			})
		}
	}
}

// TestOwnerThatDoesNotGo: an owner with the finalizer of foreground deletion does not wait for dependents unless it is being deleted.
func TestOwnerThatDoesNotGo(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		stays := b.held("a/stays", []string{metav1.FinalizerDeleteDependents})
		b.make("a/x", b.make("a/owner"), stays)
		b.delete("a/owner", background)
		b.wantLeft("one owner is left", "a/stays a/x<stays")
	})
}

// swap puts another object of that name in the place of one, whatever held that.
func (b *bench) swap(name string, finalizers ...string) {
	b.Helper()
	b.change(name, func(obj informer.Object) { obj.SetFinalizers(nil) })
	b.remove(name)
	controllerstest.Add(b, b.api, newObject(name, nil, finalizers))
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
			inBubble(t, func(b *bench, r faults.Request) error {
				if r.Target.Name != "x" || r.Verb != tt.before || swapped {
					return nil
				}
				swapped = true
				b.swap("a/x", metav1.FinalizerOrphanDependents)
				return nil
			}, func(b *bench) {
				tt.run(b)
				b.wantLeft("after the race", tt.want)
				b.after(time.Hour)
				b.wantLeft("later", tt.want)
				if got := b.get("a/x").GetFinalizers(); !slices.Equal(got, []string{metav1.FinalizerOrphanDependents}) || !swapped {
					b.Errorf("swapped %v, finalizers of the other one are %q", swapped, got)
				}
				for _, r := range b.api.Writes() {
					if r.String() == tt.never {
						b.Errorf("did %s", r)
					}
				}
			})
		})
	}
}

// TestReplacedBeforeTheSecondDeletion: a deletion that a label made conflict is tried without a resource version, but by uid.
func TestReplacedBeforeTheSecondDeletion(t *testing.T) {
	tries := 0
	inBubble(t, func(b *bench, r faults.Request) error {
		if r.Verb != faults.Delete || r.Target.Name != "x" {
			return nil
		}
		switch tries++; tries {
		case 1:
			b.change("a/x", labelled)
		case 2:
			b.swap("a/x")
		}
		return nil
	}, func(b *bench) {
		b.make("a/x", b.make("a/owner"))
		b.delete("a/owner", background)
		b.after(time.Hour)
		b.wantLeft("after two races", "a/x")
	})
}

// TestLostUpdates: what others write between the collector's read and its own write is kept.
func TestLostUpdates(t *testing.T) {
	t.Run("a finalizer that is gone", func(t *testing.T) {
		raced := false
		inBubble(t, func(b *bench, r faults.Request) error {
			if r.Verb == faults.Patch && r.Target.Name == "owner" && !raced {
				raced = true
				b.finish("a/owner", metav1.FinalizerOrphanDependents)
			}
			return nil
		}, func(b *bench) {
			b.held("a/owner", []string{"example.com/hold"})
			b.delete("a/owner", orphan)
			b.after(time.Hour)
			b.wantLeft("nothing holds it", "")
		})
	})
	t.Run("an owner that came", func(t *testing.T) {
		raced := false
		inBubble(t, func(b *bench, r faults.Request) error {
			switch {
			case r.Verb != faults.Patch || r.Target.Name != "x":
			case strings.Contains(string(r.Patch), "$patch"): // a kind without strategic merge
				return unsupported()
			case !raced:
				raced = true
				third := refTo(b.get("a/third"))
				b.change("a/x", func(obj informer.Object) { obj.SetOwnerReferences(append(obj.GetOwnerReferences(), third)) })
			}
			return nil
		}, func(b *bench) {
			b.make("a/third")
			b.make("a/x", b.make("a/owner"), b.make("a/other"))
			b.delete("a/owner", background)
			b.after(time.Hour)
			b.wantLeft("one owner gone, one new", "a/other a/third a/x<other,third")
		})
	})
}
