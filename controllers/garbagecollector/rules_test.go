package garbagecollector_test

import (
	"bytes"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/garbagecollector"
	"github.com/keelson-dev/keelson/controllers/internal/trial"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/memory"
)

// unmergeable refuses strategic merges, as the server does for custom resources.
func unmergeable(_ *bench, r faults.Request) error {
	if r.Verb == faults.Patch && (strings.Contains(string(r.Patch), "$patch") || strings.Contains(string(r.Patch), `"uid"`) && !strings.Contains(string(r.Patch), "resourceVersion")) {
		return unsupported()
	}
	return nil
}

// ring makes three objects that own each other, the first of which also has other owners.
func (b *bench) ring(others ...metav1.OwnerReference) {
	last := b.make("a/0", others...)
	for _, name := range []string{"a/1", "a/2"} {
		last = b.make(name, blocking(last))
	}
	b.change("a/0", func(obj informer.Object) { obj.SetOwnerReferences(append(obj.GetOwnerReferences(), blocking(last))) })
	b.after(time.Second)
}

// TestEveryFailure: whichever request fails, the failure is reported and made up for.
func TestEveryFailure(t *testing.T) {
	for name, steps := range map[string]func(*bench){
		"background": func(b *bench) {
			b.make("a/leaf", b.make("a/x", b.make("a/owner")))
			b.delete("a/owner", background)
		},
		"one owner of two": func(b *bench) {
			b.make("a/x", b.make("a/owner"), b.make("a/other"))
			b.delete("a/owner", background)
		},
		"foreground": func(b *bench) {
			owner := b.make("a/owner")
			b.make("a/leaf", blocking(b.make("a/x", blocking(owner))))
			b.make("a/shared", blocking(owner), b.make("a/other"))
			b.delete("a/owner", foreground)
		},
		"a ring": func(b *bench) {
			b.ring()
			b.delete("a/1", foreground)
		},
		"orphans": func(b *bench) {
			owner := b.make("a/owner")
			b.make("a/x", blocking(owner))
			b.make("a/y", owner, b.make("a/other"))
			b.delete("a/owner", orphan)
		},
		"an owner that never was": func(b *bench) {
			b.make("a/x", metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "ghost", UID: "ghost"})
		},
	} {
		for kind, before := range map[string]func(*bench, faults.Request) error{"built in": nil, "custom": unmergeable} {
			story := func(c *trial.Client, log *slog.Logger) (state string) {
				(&bench{client: c, log: log}).run(t, 1, before, func(b *bench) {
					steps(b)
					b.after(time.Hour)
					state = b.left()
				})
				return state
			}
			t.Run(name+", "+kind, func(t *testing.T) {
				var out bytes.Buffer
				story(&trial.Client{}, slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelWarn})))
				if out.Len() > 0 {
					t.Errorf("nothing failed, but %s", out.String())
				}
				trial.EveryFailure(t, nil, story)
			})
		}
	}
}

// TestOwnerThatGoesAlone: an owner that is being deleted, but does not wait for its dependents, is an owner until it is gone.
func TestOwnerThatGoesAlone(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		slow := b.held("a/slow", []string{"example.com/hold"})
		b.make("a/x", slow, b.make("a/owner"))
		b.delete("a/slow", background)
		b.delete("a/owner", background)
		b.wantLeft("one goes slowly", "a/slow! a/x<slow")
		b.release("a/slow")
		b.wantLeft("it is gone", "")
	})
}

// TestDeletionThatFails: a deletion that somebody's write to the object made conflict is tried again at once, since the write
// does not matter; one that failed for another reason, or whose object cannot be read again, is tried later, if at all.
func TestDeletionThatFails(t *testing.T) {
	resource := configMaps.GroupResource()
	conflict, soon := apierrors.NewConflict(resource, "x", errors.New("late")), 5*time.Millisecond
	label := func(b *bench) { b.change("a/x", labelled) }
	remove := func(b *bench) { b.remove("a/x") }
	for name, tt := range map[string]struct {
		other   func(*bench)    // what somebody else does in between
		answers []error         // to the deletions
		reading error           // the answer when the object is read again
		want    []time.Duration // when the deletion is tried
	}{
		"conflict":                   {label, []error{conflict}, nil, []time.Duration{0, 0}},
		"two conflicts":              {label, []error{conflict, conflict}, nil, []time.Duration{0, 0, soon}},
		"conflict, and then refused": {label, []error{conflict, errors.New("no")}, nil, []time.Duration{0, 0, soon}},
		"conflict over nothing":      {nil, []error{conflict}, nil, []time.Duration{0, soon}},
		"conflict, no answer":        {label, []error{conflict}, errors.New("down"), []time.Duration{0, soon}},
		"refused":                    {label, []error{apierrors.NewForbidden(resource, "x", errors.New("no"))}, nil, []time.Duration{0, soon}},
		"gone":                       {remove, nil, nil, []time.Duration{0}},
		"conflict with what is gone": {remove, []error{conflict}, nil, []time.Duration{0}},
		"replaced by one like it": {func(b *bench) {
			ghosts := b.get("a/x").GetOwnerReferences()
			remove(b)
			controllerstest.Add(b, b.api, newObject("a/x", ghosts, nil))
		}, []error{nil}, nil, []time.Duration{0, 0}}, // the other one is deleted on its own account
	} {
		t.Run(name, func(t *testing.T) {
			var began time.Time
			var tries []time.Duration
			inBubble(t, func(b *bench, r faults.Request) error {
				switch {
				case r.Target.Name != "x":
				case r.Verb == faults.Get && len(tries) == 1:
					err := tt.reading
					tt.reading = nil
					return err
				case r.Verb == faults.Delete:
					tries = append(tries, time.Since(began))
					n := len(tries)
					if n == 1 && tt.other != nil {
						tt.other(b)
					}
					if n <= len(tt.answers) {
						return tt.answers[n-1]
					}
				}
				return nil
			}, func(b *bench) {
				b.make("a/x", b.make("a/owner"))
				began = time.Now()
				b.delete("a/owner", background)
				b.wantLeft("in the end", "")
				if !slices.Equal(tries, tt.want) {
					b.Errorf("tried after %v, want %v", tries, tt.want)
				}
			})
		})
	}
}

// actions are what the collector wrote since the last call, and within a second from now.
func (b *bench) actions() (all []string) {
	b.after(time.Second)
	for _, r := range b.api.Writes() {
		all = append(all, r.String())
	}
	b.api.Reset()
	return all
}

// TestUnblocking: in a ring of objects that wait for each other one stops to block the next, and nothing else about it changes.
func TestUnblocking(t *testing.T) {
	for name, custom := range map[string]bool{"built in": false, "custom": true} {
		t.Run(name, func(t *testing.T) {
			var patches []string
			inBubble(t, func(b *bench, r faults.Request) error {
				switch {
				case r.Target.Name == "2" && r.Verb == faults.Delete: // not before, or they would be taken out of the references
					for _, loose := range []string{"a/loose", "a/looser"} {
						b.remove(loose)
					}
				case r.Target.Name == "0" && r.Verb == faults.Patch && strings.Contains(string(r.Patch), "ownerReferences"):
					patches = append(patches, string(r.Patch))
				}
				if custom {
					return unmergeable(b, r)
				}
				return nil
			}, func(b *bench) {
				loose, looser := b.make("a/loose"), b.make("a/looser")
				looser.BlockOwnerDeletion = new(bool)
				b.ring(loose, looser)
				b.delete("a/1", foreground)
				b.wantLeft("the ring goes", "")
				if len(patches) == 0 {
					b.Fatal("it was not patched")
				}
				for i, patch := range patches {
					whole := custom && i%2 == 1 // all references, in place of the merge that was refused
					if strings.Contains(patch, "loose") != whole || strings.Contains(patch, "true") {
						b.Errorf("patch %s", patch)
					}
				}
			})
		})
	}
	t.Run("nothing to unblock", func(t *testing.T) {
		inBubble(t, nil, func(b *bench) {
			hold := []string{"example.com/hold"}
			owner := b.make("a/owner")
			b.held("a/held", hold, blocking(owner))
			leaf := b.make("a/leaf", blocking(b.make("a/x", owner)))
			b.held("a/tip", hold, blocking(leaf))
			b.delete("a/leaf", foreground)
			b.after(time.Second)
			b.api.Reset()
			b.delete("a/owner", foreground)
			want := []string{"delete configmaps a/held", "delete configmaps a/x"}
			got := b.actions()
			// What is held is asked again to go whenever its owner is looked at: once, or for what it hears meanwhile twice.
			if !slices.Equal(got, want) && !slices.Equal(got, append(want, want[0])) {
				b.Errorf("for an owner that waits, it did\n%q, want\n%q", got, want)
			}
			b.release("a/tip")
			b.release("a/held")
			b.wantLeft("nothing is held", "")
		})
	})
}

// TestRequests: the collector does what has to be done and no more.
func TestRequests(t *testing.T) {
	hold := []string{"example.com/hold"}
	for name, tt := range map[string]struct {
		prepare func(*bench)
		owner   string
		policy  metav1.DeletionPropagation
		want    []string
		reads   int // 0 is any number
	}{
		"a leaf goes at once": {func(b *bench) { b.make("a/x", blocking(b.make("a/owner"))) }, "a/owner", foreground,
			[]string{"delete configmaps a/x", "patch configmaps a/owner"}, 0},
		"what goes already": {func(b *bench) {
			b.held("a/x", hold, b.make("a/owner"))
			b.delete("a/x", background)
		}, "a/owner", background, nil, -1},
		"one owner gone, one waiting, one left": {func(b *bench) {
			waits := b.make("a/waits")
			b.held("a/held", hold, blocking(waits))
			gone := b.make("a/gone")
			b.make("a/x", gone, waits, b.make("a/stays"))
			b.feed.Hold()
			b.delete("a/gone", background)
		}, "a/waits", foreground, []string{"patch configmaps a/x", "delete configmaps a/held", "delete configmaps a/held"}, 0},
		"an owner of many": {func(b *bench) {
			owner := b.make("role")
			b.make("a/x", owner)
			b.make("b/x", owner)
			b.make("b/y", owner)
		}, "role", background, []string{"delete configmaps a/x", "delete configmaps b/x", "delete configmaps b/y"}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, func(b *bench) {
				tt.prepare(b)
				b.after(time.Second)
				b.api.Reset()
				b.delete(tt.owner, tt.policy)
				b.feed.Resume()
				b.after(time.Second)
				reads := b.reads("")
				// What is held is asked again to go whenever its owner is looked at, for what it hears meanwhile: once more or not.
				last := len(tt.want) - 1
				repeats := last > 0 && tt.want[last] == tt.want[last-1]
				if got := b.actions(); !slices.Equal(got, tt.want) && !(repeats && slices.Equal(got, tt.want[:last])) {
					b.Errorf("did\n%q, want\n%q", got, tt.want)
				}
				if tt.reads != 0 && reads != max(tt.reads, 0) {
					b.Errorf("%d reads, want %d", reads, tt.reads)
				}
			})
		})
	}
}

// TestAbsentOwner: an owner that the server does not know is asked for once, whoever refers to it.
func TestAbsentOwner(t *testing.T) {
	for name, tt := range map[string]struct {
		owner metav1.OwnerReference
		at    string // where the third dependent is
		asked int    // for its name; objects of that name that are no owners, or others, count
	}{
		"of a namespace":     {metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "ghost", UID: "ghost"}, "a/", 1},
		"of the cluster":     {metav1.OwnerReference{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: "ghost", UID: "ghost"}, "b/", 2},
		"another's name":     {metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "alive", UID: "ghost"}, "a/", 3 + 1},
		"the cluster's name": {metav1.OwnerReference{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: "alive", UID: "ghost"}, "b/", 3 + 2},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, func(b *bench) {
				b.make("a/alive")
				b.make("alive")
				two := []metav1.OwnerReference{tt.owner, refTo(b.get("alive"))}
				b.api.Reset()
				b.feed.Hold() // else each is gone before the next one comes
				for _, name := range []string{"a/1", "a/2", tt.at + "3"} {
					b.make(name, two...)
				}
				b.feed.Resume()
				b.after(time.Second)
				if got := b.left(); strings.Contains(got, tt.owner.Name+",alive") || strings.Count(got, "<alive") != 3 {
					b.Errorf("left are %s", got)
				}
				if asked := b.reads(tt.owner.Name); asked != tt.asked && asked != tt.asked+1 { // two workers may ask at the same moment
					b.Errorf("asked %d times, want %d", asked, tt.asked)
				}
			})
		})
	}
}

// TestGoneUnseen: that an object is gone is told to what it owns as soon as a deletion shows it, before the cache does.
func TestGoneUnseen(t *testing.T) {
	done := false
	inBubble(t, func(b *bench, r faults.Request) error {
		if r.Verb != faults.Delete || r.Target.Name != "x" || done {
			return nil
		}
		done = true
		b.feed.Hold()
		b.remove("a/x")
		return nil
	}, func(b *bench) {
		b.make("a/leaf", b.make("a/x", b.make("a/owner")))
		b.delete("a/owner", background)
		b.wantLeft("the cache has stopped", "")
		b.feed.Resume()
	})
}

// TestPauses: an owner whose kind has no informer is read after pauses that double, from 5 ms up to 1000 s.
func TestPauses(t *testing.T) {
	var asked []time.Time
	inBubble(t, func(_ *bench, r faults.Request) error {
		if r.Verb == faults.Get && r.Target.Resource == secrets {
			asked = append(asked, time.Now())
		}
		return nil
	}, func(b *bench) {
		b.make("a/x", b.secret())
		b.after(24 * time.Hour)
		want := 5 * time.Millisecond
		for i := range asked[1:] {
			if got := asked[i+1].Sub(asked[i]); got != want {
				b.Errorf("pause %d is %v, want %v", i, got, want)
			}
			want = min(2*want, 1000*time.Second)
		}
		if len(asked) < 50 {
			b.Errorf("asked %d times in a day", len(asked))
		}
	})
}

// TestFinalizerConflicts: a finalizer is taken off at once again when others write to the object, four times; then, and after
// other failures, later. One that is not there any more, or whose object is gone, needs no write.
func TestFinalizerConflicts(t *testing.T) {
	conflict, soon := apierrors.NewConflict(configMaps.GroupResource(), "owner", errors.New("late")), 5*time.Millisecond
	for name, tt := range map[string]struct {
		verb    string
		other   func(*bench) // what somebody else does before the first such request
		answers []error
		want    []time.Duration // when it is tried
	}{
		"conflicts":     {faults.Patch, nil, []error{conflict, conflict, conflict, conflict, conflict}, []time.Duration{0, 0, 0, 0, soon, soon}},
		"refused":       {faults.Patch, nil, []error{errors.New("no")}, []time.Duration{0, soon}},
		"gone":          {faults.Patch, func(b *bench) { b.finish("a/owner") }, nil, []time.Duration{0}},
		"gone before":   {faults.Get, func(b *bench) { b.finish("a/owner") }, nil, nil},
		"done by other": {faults.Get, func(b *bench) { b.finish("a/owner", "example.com/hold") }, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var began time.Time
			var tries []time.Duration
			var out bytes.Buffer
			done := false
			b := &bench{log: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelWarn}))}
			b.run(t, 1, func(b *bench, r faults.Request) error {
				if r.Target.Name != "owner" || r.Verb != faults.Patch && r.Verb != tt.verb {
					return nil
				}
				if r.Verb == faults.Patch {
					tries = append(tries, time.Since(began))
				}
				if r.Verb == tt.verb && tt.other != nil && !done {
					done = true
					tt.other(b)
				}
				if n := len(tries); r.Verb == faults.Patch && n <= len(tt.answers) {
					return tt.answers[n-1]
				}
				return nil
			}, func(b *bench) {
				b.held("a/owner", []string{"example.com/hold"})
				began = time.Now()
				b.delete("a/owner", orphan)
				b.after(time.Second)
				if !slices.Equal(tries, tt.want) {
					b.Errorf("tried after %v, want %v", tries, tt.want)
				}
				if failed := out.Len() > 0; failed != (tt.answers != nil) {
					b.Errorf("logged %s", out.String())
				}
			})
		})
	}
}

// finish leaves just these finalizers to an object that is being deleted.
func (b *bench) finish(name string, finalizers ...string) {
	b.change(name, func(obj informer.Object) { obj.SetFinalizers(finalizers) })
}

// TestOrphanThatIsGone: a dependent that is gone already does not hold up its owner.
func TestOrphanThatIsGone(t *testing.T) {
	var out bytes.Buffer
	done := false
	b := &bench{log: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	b.run(t, 1, func(b *bench, r faults.Request) error {
		if r.Verb != faults.Patch || r.Target.Name != "x" || done {
			return nil
		}
		done = true
		b.remove("a/x")
		return nil
	}, func(b *bench) {
		b.make("a/x", b.make("a/owner"))
		b.delete("a/owner", orphan)
		b.wantLeft("orphaned", "")
		if out.Len() > 0 {
			b.Errorf("nothing failed, but %s", out.String())
		}
	})
}

// TestSynced: nothing is judged before all that is told of is in the caches.
func TestSynced(t *testing.T) {
	kinds := []garbagecollector.Kind{
		{Resource: "configmaps", Objects: informer.New[informer.Object](memory.New[informer.Object](), informer.Options{})},
		{Resource: "clusterroles", Objects: informer.New[informer.Object](memory.New[informer.Object](), informer.Options{})},
		{Resource: "events"},
	}
	var q trial.Queue
	if got := garbagecollector.New(kinds, nil, nil).Watch(&q); len(got) != 2 || got[0] != kinds[0].Objects || got[1] != kinds[1].Objects {
		t.Errorf("waits for %v", got)
	}
}
