package volumes_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/lag"
	"github.com/keelson-dev/keelson/scheduler/volumes"
)

// TestBindWithStaleCaches: what was written before the caches show it is waited for, not missed.
func TestBindWithStaleCaches(t *testing.T) {
	var claims *lag.Source[*corev1.PersistentVolumeClaim]
	var disks *lag.Source[*corev1.PersistentVolume]
	run(t, func(t *testing.T, s *server, v *volumes.Volumes) {
		p := pod("a", "x", "y")
		reserve(t, v, p, "n")
		claims.Hold()
		disks.Hold()
		done := bindLater(t.Context(), v, p, "n")
		want(t, "d for ns/x uid-x yes, y on n", s.wrote())
		wake := func() {
			n, _ := s.nodes.Get("", "n")
			s.nodes.Put(n.DeepCopy())
		}
		wake()
		want(t, "waits", returned(done))
		disks.Resume()
		want(t, "waits", returned(done))
		s.bind("x", "d")
		wake()
		want(t, "waits", returned(done))
		claims.Resume()
		want(t, "waits", returned(done))
		s.volumes.Put(disk("made-for-y", "n"))
		s.bind("y", "made-for-y")
		want(t, "done", returned(done))
	}, func(s *server) {
		claims, disks = lag.New[*corev1.PersistentVolumeClaim](s.claims), lag.New[*corev1.PersistentVolume](s.volumes)
		s.in.Claims = informer.New[*corev1.PersistentVolumeClaim](claims, informer.Options{})
		s.in.Volumes = informer.New[*corev1.PersistentVolume](disks, informer.Options{})
	}, with(claim("x", "local"), claim("y", "made"), disk("d", "n")))
}

// TestReserveBeforeItIsTold: what the cache shows counts even before its handlers were called, and so does what is reserved
// from that.
func TestReserveBeforeItIsTold(t *testing.T) {
	var v *volumes.Volumes
	var changed func()
	run(t, func(t *testing.T, s *server, of *volumes.Volumes) {
		v = of
		reserve(t, v, pod("a", "x"), "n")
		want(t, volumes.BindConflict, reasons(t, s, v, pod("b", "y"), "n"))
		seen := 0
		changed = func() {
			seen++
			want(t, "", reasons(t, s, v, pod("b", "y"), "n"))
			reserve(t, v, pod("b", "y"), "n")
		}
		d, _ := s.volumes.Get("", "d")
		s.volumes.Put(d.DeepCopy())
		synctest.Wait()
		if seen != 1 {
			t.Errorf("seen %d times", seen)
		}
		want(t, volumes.BindConflict, reasons(t, s, v, pod("a", "x"), "n"))
		want(t, "", reasons(t, s, v, pod("b", "y"), "n"))
	}, func(s *server) {
		s.in.Volumes.AddHandler(informer.Handler[*corev1.PersistentVolume]{Updated: func(_, _ *corev1.PersistentVolume) { changed() }})
	}, with(claim("x", "local"), claim("y", "local"), disk("d", "n")))
}

// TestSharedReservation: to undo the reservation of a pod takes nothing from another pod with the same claim.
func TestSharedReservation(t *testing.T) {
	run(t, func(t *testing.T, s *server, v *volumes.Volumes) {
		first := reserve(t, v, pod("a", "x"), "n")
		second := reserve(t, v, pod("b", "x"), "n")
		second()
		want(t, volumes.BindConflict, reasons(t, s, v, pod("c", "y"), "n"))
		first()
		want(t, "", reasons(t, s, v, pod("c", "y"), "n"))
	}, with(claim("x", "local"), claim("y", "local"), disk("d", "n")))
}

// TestReserveAgain: an earlier reservation of a pod does not take back a later one.
func TestReserveAgain(t *testing.T) {
	run(t, func(t *testing.T, _ *server, v *volumes.Volumes) {
		first := reserve(t, v, pod("a", "x"), "n")
		second := reserve(t, v, pod("a", "x"), "n")
		if first(); !v.Reserved(pod("a")) {
			t.Error("the later reservation is gone")
		}
		if second(); v.Reserved(pod("a")) {
			t.Error("still reserved")
		}
	}, with(claim("x", "local"), disk("d", "n")))
}

// TestBindBesideDrivers: a node that says which plugins drivers have replaced can have other volumes as well.
func TestBindBesideDrivers(t *testing.T) {
	run(t, func(t *testing.T, s *server, v *volumes.Volumes) {
		p := pod("a", "x")
		reserve(t, v, p, "n")
		done := bindLater(t.Context(), v, p, "n")
		s.bind("x", "d")
		want(t, "done", returned(done))
	}, with(claim("x", "local"), disk("d", "n"), csiNode(nil)))
}

// TestBindOfBrokenTerms: the error says why a volume that changes cannot be matched with nodes.
func TestBindOfBrokenTerms(t *testing.T) {
	run(t, func(t *testing.T, s *server, v *volumes.Volumes) {
		p := pod("a", "x")
		reserve(t, v, p, "n")
		done := bindLater(t.Context(), v, p, "n")
		d, _ := s.volumes.Get("", "d")
		d = d.DeepCopy()
		operator("Near")(d)
		s.volumes.Put(d)
		const prefix = `binding volumes: pv "d" node affinity doesn't match node "n": `
		if got := returned(done); !strings.HasPrefix(got, prefix) || !strings.Contains(got, `operator: Unsupported value: "Near"`) {
			t.Error(got)
		}
	}, with(claim("x", "local"), disk("d", "n")))
}

// TestBindTimeout: how long Bind waits can be chosen; no time means ten minutes.
func TestBindTimeout(t *testing.T) {
	for set, timeout := range map[time.Duration]time.Duration{time.Second: time.Second, 0: 10 * time.Minute, -1: 10 * time.Minute} {
		run(t, func(t *testing.T, _ *server, v *volumes.Volumes) {
			p := pod("a", "x")
			reserve(t, v, p, "n")
			done := bindLater(t.Context(), v, p, "n")
			time.Sleep(timeout - time.Millisecond)
			want(t, "waits", returned(done))
			time.Sleep(time.Millisecond)
			want(t, "binding volumes: context deadline exceeded", returned(done))
		}, with(claim("x", "local"), disk("d", "n")), func(s *server) { s.options.BindTimeout = set })
	}
}

// TestUsable: why a pod has to wait for its claims.
func TestUsable(t *testing.T) {
	lost := of("d", "local")
	lost.Status.Phase = corev1.ClaimLost
	going := claim("x", "local")
	going.DeletionTimestamp = ptr.To(metav1.Now())
	own := inline(corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}})
	owned := claim("a-v", "local")
	owned.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(own, corev1.SchemeGroupVersion.WithKind("Pod"))}
	mixed := inline(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})
	mixed.Spec.Volumes = append(mixed.Spec.Volumes, pod("a", "x").Spec.Volumes...)
	for name, tt := range map[string]struct {
		pod    *corev1.Pod
		claims []any
		uses   bool
		want   string
	}{
		"no volumes":           {pod("a"), nil, false, ""},
		"a directory":          {inline(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}), nil, false, ""},
		"a directory and one":  {mixed, []any{claim("x", "local")}, true, ""},
		"a directory and none": {mixed, nil, true, `persistentvolumeclaim "x" not found`},
		"one of two":           {pod("a", "x", "y"), []any{claim("x", "local")}, true, `persistentvolumeclaim "y" not found`},
		"lost":                 {pod("a", "x"), []any{lost}, true, `persistentvolumeclaim "x" bound to non-existent persistentvolume "d"`},
		"about to go":          {pod("a", "x"), []any{going}, true, `persistentvolumeclaim "x" is being deleted`},
		"its own":              {own, []any{owned}, true, ""},
		"its own, to come":     {own, nil, true, `waiting for ephemeral volume controller to create the persistentvolumeclaim "a-v"`},
		"another's":            {own, []any{claim("a-v", "local")}, true, "PVC ns/a-v was not created for pod ns/a (pod is not owner)"},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, _ *server, v *volumes.Volumes) {
				got := ""
				if err := v.Usable(tt.pod); err != nil {
					got = err.Error()
				}
				want(t, tt.want, got)
				if volumes.Uses(tt.pod) != tt.uses {
					t.Errorf("uses claims is not %t", tt.uses)
				}
			}, with(tt.claims...))
		})
	}
}

// TestNames: a pod has the claims that it names, and those made for it, in its namespace.
func TestNames(t *testing.T) {
	own := inline(corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}})
	elsewhere := claim("x", "")
	elsewhere.Namespace = "other"
	for name, tt := range map[string]struct {
		pod   *corev1.Pod
		claim *corev1.PersistentVolumeClaim
		want  bool
	}{
		"the second": {pod("a", "y", "x"), claim("x", ""), true},
		"another":    {pod("a", "y"), claim("x", ""), false},
		"elsewhere":  {pod("a", "x"), elsewhere, false},
		"its own":    {own, claim("a-v", ""), true},
		"none":       {pod("a"), claim("x", ""), false},
	} {
		if volumes.Names(tt.pod, tt.claim) != tt.want {
			t.Errorf("%s: not %t", name, tt.want)
		}
	}
}

// TestInlineDriver: which driver has taken over a volume that has no claim.
func TestInlineDriver(t *testing.T) {
	for id, want := range map[string]string{"vol-1": "ebs.csi.aws.com <nil>", "aws://zone/disk": " converting volume(v) from inline to csi: "} {
		p := inline(corev1.VolumeSource{AWSElasticBlockStore: ebs(id).AWSElasticBlockStore})
		if !volumes.Inline(&p.Spec.Volumes[0]) {
			t.Errorf("%s: no driver takes it over", id)
		}
		driver, err := volumes.InlineDriver("ns", &p.Spec.Volumes[0])
		got := driver + " <nil>"
		if err != nil {
			got = driver + " " + err.Error()
		}
		if !strings.HasPrefix(got, want) {
			t.Errorf("%s: got %q, want %q", id, got, want)
		}
	}
	if volumes.Inline(&corev1.Volume{VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}) {
		t.Error("a driver takes over a directory")
	}
}
