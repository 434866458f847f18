package clientgo_test

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/keelson-dev/keelson/informer"
)

func TestChanges(t *testing.T) {
	play(t, 0, nil, difference{}, func(w *world) {
		w.Put(configMap("a", "1"))
		w.Put(configMap("b", "1"))
		registration := w.listen("first")
		w.listen("second")
		w.note("state", "synced %v %v %v, version %q", w.informer.HasSynced(), registration.HasSynced(), w.informer.IsStopped(), w.informer.LastSyncResourceVersion())
		w.step("started", w.start)
		w.note("state", "synced %v %v, version %q", w.informer.HasSynced(), registration.HasSynced(), w.informer.LastSyncResourceVersion())
		w.step("changes", func() {
			w.Put(configMap("c", "1"))
			w.Put(configMap("a", "2"))
			w.Delete("ns", "b")
			w.Put(configMap("a", "3"))
		})
		w.step("deleted and made again", func() {
			w.Delete("ns", "a")
			w.Put(again("a", "4"))
		})
		w.step("replaced under another UID", func() { w.Put(configMap("a", "5")) })
		w.note("state", "version %q of the store %q", w.informer.LastSyncResourceVersion(), w.informer.GetStore().LastStoreSyncResourceVersion())
		w.step("bookmark", func() { w.bookmarks <- "20" })
		c := w.informer.GetController()
		w.note("state", "version %q of the store %q of the controller %q, synced %v", w.informer.LastSyncResourceVersion(), w.informer.GetStore().LastStoreSyncResourceVersion(), c.LastSyncResourceVersion(), c.HasSynced())
		w.step("end", w.stop)
	})
}

func TestEmptyList(t *testing.T) {
	play(t, 0, nil, difference{}, func(w *world) {
		registration := w.listen("first")
		w.step("started", w.start)
		w.note("state", "synced %v %v", w.informer.HasSynced(), registration.HasSynced())
		w.step("added", func() { w.Put(configMap("a", "1")) })
	})
}

// The history is lost: deletions are reported with the last known state, changes with the known one, and unchanged
// objects, too.
func TestRelist(t *testing.T) {
	play(t, 0, nil, difference{}, func(w *world) {
		for _, name := range []string{"changed", "deleted", "gone", "made again", "same"} {
			w.Put(configMap(name, "1"))
		}
		w.listen("first")
		w.step("started", w.start)
		w.anyhow("relist", func() {
			w.breakWatches(informer.ErrExpired, func() {
				w.Delete("ns", "gone")
				w.Delete("ns", "deleted")
				w.Put(configMap("changed", "2"))
				w.Delete("ns", "made again")
				w.Put(again("made again", "2"))
				w.Put(configMap("new", "1"))
				w.Trim()
			})
		})
		w.listen("late")
		w.anyhow("late handler", nothing)
		w.anyhow("relist once more", func() {
			w.breakWatches(informer.ErrExpired, func() {
				w.Delete("ns", "new")
				w.Trim()
			})
		})
		w.note("state", "version %q", w.informer.LastSyncResourceVersion())
		w.step("end", nothing)
	})
}

// The two differ when a watch breaks: client-go lists again.
func TestWatchBreaks(t *testing.T) {
	play(t, 0, nil, difference{client: []string{
		"first: update ns/same=1@2 uid 1 to ns/same=1@2 uid 1", // told again, since it listed
	}}, func(w *world) {
		w.Put(configMap("same", "1"))
		w.listen("first")
		w.step("started", w.start)
		w.step("ended in good order", func() { w.breakWatches(io.EOF, nothing) })
		w.anyhow("broken", func() {
			w.breakWatches(errors.New("connection reset"), func() {
				w.Put(configMap("new", "1"))
			})
		})
	})
}

func TestHandlersComeAndGo(t *testing.T) {
	play(t, 0, nil, difference{}, func(w *world) {
		w.Put(configMap("a", "1"))
		early, stays := w.listen("early"), w.listen("stays")
		before := w.listen("removed before the start")
		report := func(err error) { w.note("state", "%v", err) }
		report(w.informer.RemoveEventHandler(before))
		report(cache.ShutDownEventHandler(w.informer, before))
		w.step("started", w.start)
		report(cache.ShutDownEventHandler(w.informer, early))
		w.step("one removed", func() { w.Put(configMap("b", "1")) })
		report(w.informer.RemoveEventHandler(early))
		late := w.listen("late")
		w.anyhow("one added", nothing)
		w.note("state", "late synced %v %v", late.HasSynced(), cache.IsDone(late.HasSyncedChecker()))
		w.step("change", func() { w.Put(configMap("a", "2")) })
		w.note("state", "stays synced %v", stays.HasSynced())
		w.step("stopped", w.stop)
		w.note("state", "stopped %v, %d objects", w.informer.IsStopped(), len(w.informer.GetStore().List()))
		_, err := w.informer.AddEventHandler(&cache.ResourceEventHandlerFuncs{})
		report(err)
		report(w.informer.AddIndexers(cache.Indexers{"x": cache.MetaNamespaceIndexFunc}))
		report(w.informer.RemoveEventHandler(late))
		w.informer.RunWithContext(w.Context()) // returns at once
		w.step("end", nothing)
	})
}

func TestTooLateToConfigure(t *testing.T) {
	play(t, 0, nil, difference{}, func(w *world) {
		w.step("started", w.start)
		w.note("state", "%v", w.informer.SetTransform(nil))
		w.note("state", "%v", w.informer.SetWatchErrorHandler(nil))
		w.note("state", "%v", w.informer.SetWatchErrorHandlerWithContext(nil))
		w.step("end", nothing)
	})
}

func TestSlowHandler(t *testing.T) {
	play(t, 0, nil, difference{}, func(w *world) {
		w.Put(configMap("a", "0"))
		gate := make(chan struct{})
		registration, err := w.informer.AddEventHandler(w.handler("slow", func() { <-gate }))
		if err != nil {
			w.Fatal(err)
		}
		w.listen("quick")
		w.step("started", w.start)
		w.note("state", "synced %v, the slow one %v", w.informer.HasSynced(), registration.HasSynced())
		w.step("many changes", func() {
			for n := range 2000 {
				w.Put(configMap("a", fmt.Sprint(n)))
				if n%100 == 0 {
					time.Sleep(time.Second)
				}
			}
		})
		w.step("catches up", func() { close(gate) })
		w.note("state", "the slow one %v", registration.HasSynced())
		w.step("end", nothing)
	})
}

func TestPanickingHandler(t *testing.T) {
	really, handlers := utilruntime.ReallyCrash, utilruntime.PanicHandlers
	utilruntime.ReallyCrash, utilruntime.PanicHandlers = false, nil
	defer func() { utilruntime.ReallyCrash, utilruntime.PanicHandlers = really, handlers }()
	play(t, 0, nil, difference{}, func(w *world) {
		for _, name := range []string{"a", "b", "c"} {
			w.Put(configMap(name, "1"))
		}
		start := time.Now()
		calls := 0
		registration, err := w.informer.AddEventHandler(w.handler("panics", func() {
			w.note("time", "%v", time.Since(start))
			if calls++; calls == 2 {
				panic("no good")
			}
		}))
		if err != nil {
			w.Fatal(err)
		}
		w.listen("other")
		w.step("started", w.start)
		w.note("state", "synced %v", w.informer.HasSynced())
		_ = registration
		w.step("end", nothing)
	})
}

func TestResync(t *testing.T) {
	every := func(d time.Duration) cache.HandlerOptions { return cache.HandlerOptions{ResyncPeriod: &d} }
	at := func(w *world, name string, options cache.HandlerOptions) {
		start := time.Now()
		if _, err := w.informer.AddEventHandlerWithOptions(w.handler(name, func() { w.note(name, "after %v", time.Since(start)) }), options); err != nil {
			w.Fatal(err)
		}
	}
	t.Run("periods", func(t *testing.T) {
		play(t, 30*time.Second, nil, difference{}, func(w *world) {
			w.Put(configMap("a", "1"))
			at(w, "informer's period", cache.HandlerOptions{})
			at(w, "shorter", every(10*time.Second))
			at(w, "never", every(0))
			w.ended("started", w.start, 65*time.Second, false)
			w.ended("change", func() { w.Put(configMap("a", "2")) }, time.Second, false)
			w.ended("later", nothing, 10*time.Second, false)
		})
	})
	t.Run("too short", func(t *testing.T) {
		play(t, time.Hour, nil, difference{}, func(w *world) {
			w.Put(configMap("a", "1"))
			at(w, "millisecond", every(time.Millisecond))
			w.ended("started", w.start, 3500*time.Millisecond, false)
		})
	})
	t.Run("late and shorter", func(t *testing.T) {
		play(t, 30*time.Second, nil, difference{}, func(w *world) {
			w.Put(configMap("a", "1"))
			w.ended("started", w.start, 0, false)
			at(w, "late", every(10*time.Second))
			w.ended("later", nothing, 100*time.Second, false)
		})
	})
	t.Run("of an informer without", func(t *testing.T) {
		play(t, 0, nil, difference{}, func(w *world) {
			w.Put(configMap("a", "1"))
			w.ended("started", w.start, 0, false)
			at(w, "late", every(10*time.Second))
			w.ended("later", nothing, 100*time.Second, false)
		})
	})
	// client-go looks only every ten seconds, here whether 15 have passed.
	t.Run("not a multiple", func(t *testing.T) {
		play(t, time.Hour, nil, difference{
			client:  []string{"b: after 20s", "b: after 40s"},
			keelson: []string{"b: after 15s", "b: after 30s"},
		}, func(w *world) {
			w.Put(configMap("a", "1"))
			at(w, "a", every(10*time.Second))
			at(w, "b", every(15*time.Second))
			w.ended("started", w.start, 41*time.Second, false)
		})
	})
	t.Run("relist between", func(t *testing.T) {
		play(t, time.Hour, nil, difference{}, func(w *world) {
			w.Put(configMap("a", "1"))
			w.listen("resyncs", every(10*time.Minute))
			w.listen("never", every(0))
			w.ended("started", w.start, time.Minute, false)
			relist := func() {
				w.breakWatches(informer.ErrExpired, w.Trim)
			}
			w.ended("relist before the first resync", relist, 5*time.Minute, false)
			w.ended("first resync", nothing, 8*time.Minute, false)
			w.ended("relist after it", relist, time.Minute, false)
		})
	})
}

func TestTransformedObjects(t *testing.T) {
	mark := func(obj any) (any, error) {
		o := obj.(object)
		if o.Data["k"] == "bad" {
			return nil, errors.New("no good")
		}
		if !strings.HasSuffix(o.Data["k"], "!") { // client-go may call it twice
			o.Data["k"] += "!"
		}
		return o, nil
	}
	t.Run("changes", func(t *testing.T) {
		errorHandlers := utilruntime.ErrorHandlers
		utilruntime.ErrorHandlers = nil
		defer func() { utilruntime.ErrorHandlers = errorHandlers }()
		play(t, 0, nil, difference{}, func(w *world) {
			if err := w.informer.SetTransform(mark); err != nil {
				w.Fatal(err)
			}
			w.Put(configMap("a", "1"))
			w.Put(configMap("b", "1"))
			w.listen("first")
			w.step("started", w.start)
			w.step("changes", func() {
				w.Put(configMap("a", "2"))
				w.Put(configMap("a", "bad"))
				w.Delete("ns", "b")
				w.Put(configMap("c", "bad"))
			})
			w.note("state", "version %q", w.informer.LastSyncResourceVersion())
			w.anyhow("relist fails", func() {
				w.breakWatches(informer.ErrExpired, w.Trim)
			})
			w.anyhow("relist succeeds", func() {
				w.Delete("ns", "a")
				w.Put(configMap("c", "1"))
			})
			stored, _ := w.Get("ns", "c")
			w.note("state", "the source still has %s", say(stored))
			w.step("end", nothing)
		})
	})
	t.Run("another type", func(t *testing.T) {
		play(t, 0, nil, difference{}, func(w *world) {
			err := w.informer.SetTransform(func(obj any) (any, error) {
				if o, ok := obj.(object); ok {
					return &metav1.PartialObjectMetadata{ObjectMeta: o.ObjectMeta}, nil
				}
				return obj, nil
			})
			if err != nil {
				w.Fatal(err)
			}
			w.Put(configMap("a", "1"))
			w.listen("first")
			w.step("started", w.start)
			w.step("changes", func() {
				w.Put(configMap("a", "2"))
				w.Delete("ns", "a")
			})
		})
	})
}

// client-go's delays between attempts are random, so only the errors are compared.
func TestErrorsOfLists(t *testing.T) {
	play(t, 0, nil, difference{}, func(w *world) {
		w.failures = []error{errors.New("no connection"), errors.New("no connection"), errors.New("another")}
		var seen []string
		err := w.informer.SetWatchErrorHandler(func(r *cache.Reflector, err error) {
			seen = append(seen, fmt.Sprintf("%s: %v", r.TypeDescription(), err))
		})
		if err != nil {
			w.Fatal(err)
		}
		w.Put(configMap("a", "1"))
		w.listen("first")
		w.step("started", w.start)
		w.note("state", "%s", strings.Join(slices.Compact(seen), "; "))
		seen = nil
		w.step("relist", func() {
			w.breakWatches(informer.ErrExpired, func() {
				w.Put(configMap("a", "2"))
				w.Trim()
			})
		})
		w.note("state", "synced %v", w.informer.HasSynced())
		w.step("end", nothing)
	})
}
