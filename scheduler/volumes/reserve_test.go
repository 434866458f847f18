package volumes_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/volumes"
)

// reasons returns why a pod cannot be on a node.
func reasons(t *testing.T, s *server, v *volumes.Volumes, p *corev1.Pod, node string) string {
	t.Helper()
	claims, err := v.Of(p)
	if err != nil {
		return err.Error()
	}
	n, _ := s.nodes.Get("", node)
	_, reasons, err := claims.Find(n)
	if err != nil {
		return err.Error()
	}
	return strings.Join(reasons, ", ")
}

func reserve(t *testing.T, v *volumes.Volumes, p *corev1.Pod, node string) (undo func()) {
	t.Helper()
	undo, err := v.Reserve(p, node)
	if err != nil || undo == nil {
		t.Fatalf("reserving for %s: %v, undo %v", p.Name, err, undo != nil)
	}
	return undo
}

// bindLater calls Bind and returns where its error will be.
func bindLater(ctx context.Context, v *volumes.Volumes, p *corev1.Pod, node string) <-chan error {
	done := make(chan error, 1)
	go func() { done <- v.Bind(ctx, p, node) }()
	synctest.Wait()
	return done
}

func returned(done <-chan error) string {
	synctest.Wait()
	select {
	case err := <-done:
		if err == nil {
			return "done"
		}
		return err.Error()
	default:
		return "waits"
	}
}

func want(t *testing.T, want, got string) {
	t.Helper()
	if got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}

// A reserved volume is not another pod's, until the reservation is undone.
func TestReserve(t *testing.T) {
	run(t, func(t *testing.T, s *server, v *volumes.Volumes) {
		a, b := pod("a", "x"), pod("b", "y")
		want(t, "", reasons(t, s, v, b, "n"))
		undo := reserve(t, v, a, "n")
		want(t, volumes.BindConflict, reasons(t, s, v, b, "n"))
		want(t, "", reasons(t, s, v, a, "n"))
		if _, err := v.Reserve(b, "n"); !errors.Is(err, volumes.ErrChanged) {
			t.Errorf("the volume is reserved twice: %v", err)
		}
		if !v.Reserved(a) || v.Reserved(b) {
			t.Error("what is reserved")
		}
		undo()
		if v.Reserved(a) {
			t.Error("still reserved")
		}
		want(t, "", reasons(t, s, v, b, "n"))
		want(t, "", s.wrote())
	}, with(claim("x", "local"), claim("y", "local"), disk("d", "n")))
}

// A claim for which a volume is to be made on a node binds other pods with the claim to that node.
func TestReserveOfOneClaim(t *testing.T) {
	run(t, func(t *testing.T, s *server, v *volumes.Volumes) {
		undo := reserve(t, v, pod("a", "x"), "n")
		want(t, volumes.BindConflict, reasons(t, s, v, pod("b", "x"), "m"))
		want(t, "", reasons(t, s, v, pod("b", "x"), "n"))
		undo()
		want(t, "", reasons(t, s, v, pod("b", "x"), "m"))
	}, with(claim("x", "made")))
}

// The states of the API replace those that were assumed from older ones.
func TestReservationExpires(t *testing.T) {
	run(t, func(t *testing.T, s *server, v *volumes.Volumes) {
		undo := reserve(t, v, pod("a", "x"), "n")
		d, _ := s.volumes.Get("", "d")
		d = d.DeepCopy()
		d.Labels = map[string]string{"a": "b"}
		s.volumes.Put(d)
		synctest.Wait()
		want(t, "", reasons(t, s, v, pod("b", "y"), "n"))
		again := reserve(t, v, pod("b", "y"), "n")
		undo() // of an older version
		want(t, volumes.BindConflict, reasons(t, s, v, pod("a", "x"), "n"))
		again()
		s.volumes.Delete("", "d")
		synctest.Wait()
		want(t, volumes.BindConflict, reasons(t, s, v, pod("b", "y"), "n"))
	}, with(claim("x", "local"), claim("y", "local"), disk("d", "n")))
}

// What one pod was promised is taken back if the rest of it cannot be.
func TestReserveFails(t *testing.T) {
	run(t, func(t *testing.T, s *server, v *volumes.Volumes) {
		if _, err := v.Reserve(pod("a", "x"), "none"); err == nil || err.Error() != `node "none" not found` {
			t.Errorf("on no node: %v", err)
		}
		if _, err := v.Reserve(pod("a", "z"), "n"); err == nil || err.Error() != `error getting PVC "ns/z": persistentvolumeclaims "ns/z" not found` {
			t.Errorf("for no claim: %v", err)
		}
		if _, err := v.Reserve(pod("a", "odd"), "n"); err == nil || errors.Is(err, volumes.ErrChanged) {
			t.Errorf("for a claim with a selector that is none: %v", err)
		}
		if _, err := v.Reserve(pod("a", "now"), "n"); !errors.Is(err, volumes.ErrChanged) {
			t.Errorf("for a claim that has to be bound: %v", err)
		}
		if undo, err := v.Reserve(pod("a", "bound"), "n"); undo != nil || err != nil {
			t.Errorf("for bound claims: %v", err)
		}
	}, with(claim("x", "local"), disk("d", "n"), claim("now", ""), func() *corev1.PersistentVolumeClaim {
		c := claim("odd", "local")
		c.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "k", Operator: "Near"}}}
		return c
	}(), func() *corev1.PersistentVolumeClaim {
		c := claim("bound", "local")
		c.Spec.VolumeName, c.Annotations = "d", map[string]string{completed: "yes"}
		return c
	}()))
}

// Bind writes what is reserved, and returns when the binder has bound all.
func TestBind(t *testing.T) {
	run(t, func(t *testing.T, s *server, v *volumes.Volumes) {
		p := pod("a", "x", "y")
		reserve(t, v, p, "n")
		done := bindLater(t.Context(), v, p, "n")
		want(t, "d for ns/x uid-x yes, y on n", s.wrote())
		want(t, "waits", returned(done))
		s.bind("x", "d")
		want(t, "waits", returned(done))
		made := disk("made-for-y", "n")
		s.volumes.Put(made)
		s.bind("y", "made-for-y")
		want(t, "done", returned(done))
		if err := v.Bind(t.Context(), p, "n"); err != nil || !v.Bound(p) {
			t.Errorf("again: %v", err)
		}
		if d, _ := s.volumes.Get("", "d"); d.Spec.ClaimRef.Kind != "PersistentVolumeClaim" || d.Spec.ClaimRef.APIVersion != "v1" || d.Spec.ClaimRef.ResourceVersion == "" {
			t.Errorf("the reference is %+v", d.Spec.ClaimRef)
		}
	}, with(claim("x", "local"), claim("y", "made"), disk("d", "n")))
}

// A volume that a user reserved is not marked as the scheduler's.
func TestBindOfUsersChoice(t *testing.T) {
	d := disk("d", "n")
	d.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "ns", Name: "x"}
	run(t, func(t *testing.T, s *server, v *volumes.Volumes) {
		p := pod("a", "x")
		reserve(t, v, p, "n")
		done := bindLater(t.Context(), v, p, "n")
		want(t, "d for ns/x uid-x ", s.wrote())
		s.bind("x", "d")
		want(t, "done", returned(done))
	}, with(claim("x", "local"), d))
}

// What the API has already is not written again.
func TestBindWritesWhatIsMissing(t *testing.T) {
	d, y := disk("d", "n"), claim("y", "made")
	d.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "ns", Name: "x", UID: "uid-x"}
	y.Annotations = map[string]string{selected: "n"}
	run(t, func(t *testing.T, s *server, v *volumes.Volumes) {
		p := pod("a", "x", "y")
		reserve(t, v, p, "n")
		done := bindLater(t.Context(), v, p, "n")
		want(t, "", s.wrote())
		s.bind("x", "d")
		s.bind("y", "unseen")
		want(t, "done", returned(done))
	}, with(claim("x", "local"), y, d, disk("unseen", "n")))
}

func TestBindFails(t *testing.T) {
	edit := func(s *server, change func(*corev1.PersistentVolume)) {
		d, _ := s.volumes.Get("", "d")
		d = d.DeepCopy()
		change(d)
		s.volumes.Put(d)
	}
	annotate := func(s *server, annotations map[string]string) {
		y, _ := s.claims.Get("ns", "y")
		y = y.DeepCopy()
		y.Annotations = annotations
		s.claims.Put(y)
	}
	for name, tt := range map[string]struct {
		happens func(*server)
		want    string
	}{
		"no node": {func(s *server) { s.nodes.Delete("", "n") }, `binding volumes: failed to get node "n": node "n" not found`},
		"no volume": {func(s *server) { s.volumes.Delete("", "d") },
			`binding volumes: failed to check binding: persistentvolumes "d" not found`},
		"no claim": {func(s *server) { s.claims.Delete("ns", "x") },
			`binding volumes: failed to check binding: persistentvolumeclaims "ns/x" not found`},
		"the volume is taken back": {func(s *server) { edit(s, func(d *corev1.PersistentVolume) { d.Spec.ClaimRef = nil }) },
			`binding volumes: ClaimRef got reset for pv "d"`},
		"the volume is forgotten": {func(s *server) { edit(s, func(d *corev1.PersistentVolume) { d.Spec.ClaimRef.UID = "" }) },
			`binding volumes: ClaimRef got reset for pv "d"`},
		"the volume moves": {func(s *server) {
			edit(s, func(d *corev1.PersistentVolume) { d.Spec.NodeAffinity = disk("", "m").Spec.NodeAffinity })
		},
			`binding volumes: pv "d" node affinity doesn't match node "n": no matching NodeSelectorTerms`},
		"no second claim": {func(s *server) { s.bind("x", "d"); s.claims.Delete("ns", "y") },
			`binding volumes: failed to check provisioning pvc: persistentvolumeclaims "ns/y" not found`},
		"nothing can be made": {func(s *server) { s.bind("x", "d"); annotate(s, map[string]string{"a": "b"}) },
			`binding volumes: provisioning failed for PVC "y"`},
		"all annotations go": {func(s *server) { s.bind("x", "d"); annotate(s, nil) },
			`binding volumes: selectedNode annotation reset for PVC "y"`},
		"made elsewhere": {func(s *server) { s.bind("x", "d"); s.volumes.Put(disk("e", "m")); s.bind("y", "e") },
			`binding volumes: pv "e" node affinity doesn't match node "n": no matching NodeSelectorTerms`},
		"made, and not seen": {func(s *server) { s.bind("x", "d"); s.bind("y", "e") }, "waits"},
		"nobody binds":       {func(*server) { time.Sleep(10*time.Minute - time.Second) }, "waits"},
		"nobody ever binds":  {func(*server) { time.Sleep(10 * time.Minute) }, "binding volumes: context deadline exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, s *server, v *volumes.Volumes) {
				p := pod("a", "x", "y")
				undo := reserve(t, v, p, "n")
				ctx, cancel := context.WithCancel(t.Context())
				done := bindLater(ctx, v, p, "n")
				tt.happens(s)
				want(t, tt.want, returned(done))
				if cancel(); tt.want == "waits" {
					want(t, "binding volumes: context canceled", returned(done))
				}
				undo()
			}, with(claim("x", "local"), claim("y", "made"), disk("d", "n")))
		})
	}
}

// A write that fails ends the binding, and what was not written is free again.
func TestWriteFails(t *testing.T) {
	run(t, func(t *testing.T, s *server, v *volumes.Volumes) {
		p := pod("a", "x")
		undo := reserve(t, v, p, "n")
		s.fail = errors.New("no")
		want(t, "no", returned(bindLater(t.Context(), v, p, "n")))
		undo()
		want(t, "", reasons(t, s, v, pod("b", "y"), "n"))
	}, with(claim("x", "local"), claim("y", "local"), disk("d", "n")))
	run(t, func(t *testing.T, s *server, v *volumes.Volumes) {
		p := pod("a", "x")
		undo := reserve(t, v, p, "n")
		s.fail = errors.New("no")
		want(t, "no", returned(bindLater(t.Context(), v, p, "n")))
		undo()
		want(t, "", reasons(t, s, v, pod("b", "x"), "m"))
	}, with(claim("x", "made")))
}

// A volume that changes while it is reserved is not overwritten.
func TestBindConflicts(t *testing.T) {
	run(t, func(t *testing.T, s *server, v *volumes.Volumes) {
		p := pod("a", "x")
		reserve(t, v, p, "n")
		d, _ := s.volumes.Get("", "d")
		s.volumes.Put(d.DeepCopy())
		want(t, `Operation cannot be fulfilled on persistentvolumes "d": too old`, returned(bindLater(t.Context(), v, p, "n")))
	}, with(claim("x", "local"), disk("d", "n")))
}

// Events are told when plugins can see what they are about.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		v := volumes.New(s.in, s, volumes.Options{})
		var told []string
		v.Watch(func(e scheduler.Event) {
			kind, obj := map[scheduler.EventKind]string{scheduler.ObjectAdded: "+", scheduler.ObjectUpdated: "~", scheduler.ObjectDeleted: "-"}[e.Kind], e.Object
			if obj == nil {
				obj = e.OldObject
			}
			if c, ok := obj.(*corev1.PersistentVolumeClaim); ok {
				if _, err := v.Claim("ns", c.Name); err != nil {
					t.Errorf("told before it is there: %v", err)
				}
			}
			told = append(told, kind+obj.GetName())
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		if err := v.WaitSynced(canceled()); err == nil {
			t.Error("synced before it ran")
		}
		go func() { ended <- s.in.Claims.Run(ctx) }()
		s.claims.Put(claim("x", "local"))
		synctest.Wait()
		s.claims.Put(claim("x", "local"))
		synctest.Wait()
		s.claims.Delete("ns", "x")
		synctest.Wait()
		want(t, "+x ~x", strings.Join(told, " "))
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestClaimOf(t *testing.T) {
	p := pod("p", "x")
	ephemeral := &corev1.Volume{Name: "e", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}}
	for want, volume := range map[string]*corev1.Volume{"x false": &p.Spec.Volumes[0], "p-e true": ephemeral, " false": {Name: "other"}} {
		if name, own := volumes.ClaimOf(p, volume); fmt.Sprint(name, " ", own) != want {
			t.Errorf("%s: claim %q, own %t, want %q", volume.Name, name, own, want)
		}
	}
}

func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
