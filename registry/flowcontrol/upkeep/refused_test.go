package upkeep_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"

	apf "github.com/keelson-dev/keelson/flowcontrol"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/flowcontrol"
	"github.com/keelson-dev/keelson/registry/flowcontrol/upkeep"
)

// guarded is a world in which guard may refuse to write objects, and status the conditions of schemas. It logs to log.
type guarded struct {
	world
	guard, status refusal
	log           bytes.Buffer
}

// refusal is what refuses to write an object, or nothing.
type refusal struct {
	mu   sync.Mutex
	does func(ctx context.Context, name string) error
}

func (r *refusal) set(does func(ctx context.Context, name string) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.does = does
}

func (r *refusal) judge(ctx context.Context, obj, _ registry.Object) error {
	r.mu.Lock()
	does := r.does
	r.mu.Unlock()
	if does == nil {
		return nil
	}
	return does(ctx, obj.GetName())
}

func beginGuarded(t testing.TB) *guarded {
	t.Helper()
	g := &guarded{}
	kinds := flowcontrol.Kinds()
	for i := range kinds {
		kinds[i].Rules.Guard = g.guard.judge
	}
	view := kinds[0].Sub.Views["status"]
	view.Guard = g.status.judge
	kinds[0].Sub.Views["status"] = view
	g.world = beginWith(t, kinds, upkeep.Options{Logger: slog.New(slog.NewTextHandler(&g.log, nil))})
	return g
}

var errRefused = errors.New("refused")

// TestOnceFails: the error names the object that cannot be written, or removed, whichever it is.
func TestOnceFails(t *testing.T) {
	const old = "old"
	for _, name := range append(levels(), schemas()...) {
		synctest.Test(t, func(t *testing.T) {
			g := beginGuarded(t)
			g.guard.set(func(_ context.Context, written string) error {
				if written == name {
					return errRefused
				}
				return nil
			})
			if err := g.upkeep.Once(t.Context()); !errors.Is(err, errRefused) || !strings.Contains(err.Error(), " "+name+": ") {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	for _, plural := range []string{"flowschemas", "prioritylevelconfigurations"} {
		synctest.Test(t, func(t *testing.T) {
			kinds := flowcontrol.Kinds()
			for i := range kinds {
				if kinds[i].Plural == plural {
					kinds[i].Rules.Deletion.Guard = func(name string) error {
						if name == old {
							return errRefused
						}
						return nil
					}
				}
			}
			w := beginWith(t, kinds, upkeep.Options{})
			_, suggested := apf.DefaultLevels()
			suggested[0].Name = old
			create(t, w, "prioritylevelconfigurations", suggested[0])
			create(t, w, "flowschemas", flow(old, "system", map[string]string{flowcontrolv1.AutoUpdateAnnotationKey: "true"}))
			if err := w.upkeep.Once(t.Context()); !errors.Is(err, errRefused) || !strings.Contains(err.Error(), " "+old+": ") {
				t.Errorf("%s: %v", plural, err)
			}
		})
	}
}

// TestRetries: conditions that cannot be written are tried again after ever longer times, until the truce, and a failure
// with one schema leaves the others alone.
func TestRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := beginGuarded(t)
		g.once(t)
		began := time.Now()
		var tried []time.Duration
		g.status.set(func(_ context.Context, name string) error {
			if name != "exempt" {
				return nil
			}
			tried = append(tried, time.Since(began))
			return errRefused
		})
		background(t, g.upkeep.Run)
		synctest.Wait()
		for _, name := range schemas() {
			if got := dangling(t, g.world, name); (got == "") != (name == "exempt") {
				t.Errorf("%s: %q", name, got)
			}
		}
		time.Sleep(110 * time.Second)
		synctest.Wait()
		ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
		want := []time.Duration{0, ms(200), ms(600), ms(1400), ms(3000), ms(6200)}
		// The next attempt is not made, nor the one after the truce of 45 s, when the last minute still has six.
		for _, after := range want {
			want = append(want, ms(12_600)+2*45*time.Second+after)
		}
		if !slices.Equal(tried, want) {
			t.Errorf("tried after %v, want %v", tried, want)
		}
		if !strings.Contains(g.log.String(), "cannot set the conditions of flow schemas, will retry") {
			t.Errorf("the log says %s", &g.log)
		}
	})
}

// TestRetriesGoOn: failures that last, of schemas that came one after the other, do not make the pauses longer and longer.
func TestRetriesGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := beginGuarded(t)
		g.once(t)
		var last time.Time
		var longest time.Duration
		g.status.set(func(context.Context, string) error {
			if now := time.Now(); !last.IsZero() {
				longest = max(longest, now.Sub(last))
			}
			last = time.Now()
			return errRefused
		})
		background(t, g.upkeep.Run)
		for _, name := range []string{"a", "b", "c"} {
			time.Sleep(17 * time.Second)
			create(t, g.world, "flowschemas", flow(name, "system", nil))
			g.upkeep.Wake()
		}
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if longest > 2*time.Minute {
			t.Errorf("no attempt for %s", longest)
		}
		g.status.set(nil)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		for _, name := range append(schemas(), "a", "b", "c") {
			if got := dangling(t, g.world, name); got == "" {
				t.Errorf("%s has no condition", name)
			}
		}
	})
}

// TestRoundFails: a round that fails is logged and comes again; one that does not is not logged.
func TestRoundFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := beginGuarded(t)
		g.once(t)
		background(t, g.upkeep.Run)
		time.Sleep(61 * time.Second)
		synctest.Wait()
		if g.log.Len() > 0 {
			t.Errorf("the log says %s", &g.log)
		}
		remove(t, g.world, "flowschemas", "probes")
		g.guard.set(func(context.Context, string) error { return errRefused })
		time.Sleep(time.Minute)
		synctest.Wait()
		if !strings.Contains(g.log.String(), "cannot keep the default flow schemas and priority levels, will retry") {
			t.Errorf("the log says %s", &g.log)
		}
		g.guard.set(nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := g.names(t, "flowschemas"); !slices.Equal(got, schemas()) {
			t.Errorf("schemas %q", got)
		}
		// Conditions wait for Wake.
		if got := dangling(t, g.world, "probes"); got != "" {
			t.Errorf("probes: %s", got)
		}
	})
}

// TestEndsInWrites: what fails because Run is to end is no failure.
func TestEndsInWrites(t *testing.T) {
	hang := func(ctx context.Context, _ string) error {
		<-ctx.Done()
		return ctx.Err()
	}
	for _, of := range []string{"objects", "conditions"} {
		synctest.Test(t, func(t *testing.T) {
			g := beginGuarded(t)
			if of == "objects" {
				g.guard.set(hang)
			} else {
				g.once(t)
				g.status.set(hang)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
			defer cancel()
			if err := g.upkeep.Run(ctx); err != nil || g.log.Len() > 0 {
				t.Errorf("%s: %v, the log says %s", of, err, &g.log)
			}
		})
	}
}
