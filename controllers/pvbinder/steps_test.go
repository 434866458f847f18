package pvbinder_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"

	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/internal/trial"
	"github.com/keelson-dev/keelson/informer"
)

// stepper is a controller without a loop: the test says what is reconciled.
type stepper struct {
	*bench
	controller controllers.Controller
	queue      *trial.Queue
	lags       bool // the caches learn nothing of what happens
}

// byHand runs test on a controller without a loop, whose caches have the objects.
func byHand(t *testing.T, objects []informer.Object, test func(*stepper)) {
	t.Helper()
	inBench(t, objects, func(b *bench, c controllers.Controller) {
		s := &stepper{bench: b, controller: c, queue: &trial.Queue{}}
		c.Watch(s.queue)
		synctest.Wait()
		test(s)
	})
}

func key(name string) controllers.Key {
	if name, ok := strings.CutPrefix(name, "ns/"); ok {
		return controllers.Key{Namespace: "ns", Name: name}
	}
	return controllers.Key{Name: name}
}

// step has a claim (ns/name) or a volume reconciled. It compares the requests and what is queued, and returns the error.
func (s *stepper) step(name string, want ...string) error {
	s.Helper()
	s.hold() // what the informers queue is not counted
	s.api.Reset()
	s.queue.Take()
	_, err := s.controller.Reconcile(s.Context(), key(name))
	got := strings.Fields(s.queue.Take())
	for _, r := range s.api.Requests() {
		got = append(got, strings.NewReplacer("persistentvolumeclaims", "claim", "persistentvolumes", "volume").Replace(r.String()))
	}
	slices.Sort(got) // the order of writes matters only when one fails
	if want = slices.Sorted(slices.Values(want)); !slices.Equal(got, want) {
		s.Errorf("%s: done %q, want %q", name, got, want)
	}
	if !s.lags {
		s.resume()
	}
	return err
}

func (s *stepper) hold() {
	synctest.Wait()
	s.claimCache.Hold()
	s.volumeCache.Hold()
}

func (s *stepper) resume() {
	s.claimCache.Resume()
	s.volumeCache.Resume()
	synctest.Wait()
}

// lag keeps from the caches what happens from now on.
func (s *stepper) lag() {
	s.lags = true
	s.hold()
}

// good is a step without an error.
func (s *stepper) good(name string, want ...string) {
	s.Helper()
	if err := s.step(name, want...); err != nil {
		s.Errorf("%s: %v", name, err)
	}
}

// bad is a step with an error.
func (s *stepper) bad(message, name string, want ...string) {
	s.Helper()
	if err := s.step(name, want...); err == nil || err.Error() != message {
		s.Errorf("%s: error %v, want %q", name, err, message)
	}
}

// down has the next request of a verb for a resource fail.
func (s *stepper) down(verb, resource string) {
	s.api.Inject(faults.Fault{Verb: verb, Resource: resource, Err: errors.New("down")})
}

// of binds a volume to a claim by its UID.
func of(claim string, uid types.UID) func(*corev1.PersistentVolume) {
	return func(v *corev1.PersistentVolume) {
		v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "ns", Name: claim, UID: uid}
	}
}

func inPhase(p corev1.PersistentVolumePhase) func(*corev1.PersistentVolume) {
	return func(v *corev1.PersistentVolume) { v.Status.Phase = p }
}

func marked(key, value string) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) { metav1.SetMetaDataAnnotation(&c.ObjectMeta, key, value) }
}

func free(name string, changes ...func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
	return pv(name, "5Gi", append(changes, inPhase(corev1.VolumeAvailable))...)
}

// bound is a claim that was bound to a volume.
func bound(volumeName string) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) {
		c.Annotations, c.Spec.VolumeName = map[string]string{volume.AnnBindCompleted: "yes"}, volumeName
		c.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: size("5Gi"), AccessModes: c.Spec.AccessModes}
	}
}

// TestBindSteps: what binding writes, and how it goes on after each write that fails.
func TestBindSteps(t *testing.T) {
	all := []string{"update volume a", "update volume/status a", "update claim ns/c", "update claim/status ns/c"}
	resources := []string{"persistentvolumes", "persistentvolumes/status", "persistentvolumeclaims", "persistentvolumeclaims/status"}
	for i, message := range []string{"updating volume a: down", "updating volume a: down", "updating claim ns/c: down", "updating claim ns/c: down"} {
		byHand(t, []informer.Object{free("a"), claim("c", "1Gi")}, func(s *stepper) {
			s.down(faults.Update, resources[i])
			s.bad(message, "ns/c", all[:i+1]...)
			s.good("ns/c", all[i:]...)
			s.wantBound("a", "c")
			s.good("ns/c")
			s.good("a")
		})
	}
}

// TestClaimSteps: what is written about claims that are not bound, and what after failures.
func TestClaimSteps(t *testing.T) {
	bind := []string{"update volume a", "update volume/status a", "update claim ns/c", "update claim/status ns/c"}
	for name, tt := range map[string]struct {
		objects []informer.Object
		test    func(*stepper)
	}{
		"annotated for a driver, then bound": {
			[]informer.Object{free("a", reserved("c")), claim("c", "1Gi", marked(volume.AnnBetaStorageProvisioner, "kubernetes.io/aws-ebs"))},
			func(s *stepper) {
				s.down(faults.Update, "persistentvolumeclaims")
				s.bad("updating claim ns/c: down", "ns/c", "update claim ns/c")
				s.good("ns/c", append([]string{"update claim ns/c"}, bind...)...)
				s.wantBound("a", "c")
			},
		},
		"asked of another provisioner": {
			[]informer.Object{
				class("x", "x.io/p"),
				claim("c", "1Gi", ofClass("x"), marked(volume.AnnStorageProvisioner, "kubernetes.io/aws-ebs"), marked(volume.AnnMigratedTo, "ebs.csi.aws.com")),
			},
			func(s *stepper) {
				s.down(faults.Update, "persistentvolumeclaims")
				s.bad("updating claim ns/c: down", "ns/c", "update claim ns/c")
				s.good("ns/c", "update claim ns/c")
				if a := s.claim("c").Annotations; a[volume.AnnStorageProvisioner] != "x.io/p" || metav1.HasAnnotation(metav1.ObjectMeta{Annotations: a}, volume.AnnMigratedTo) {
					s.Errorf("annotations %v", a)
				}
				s.good("ns/c")
			},
		},
		"given the default class": {
			[]informer.Object{class("d", "x.io/p", byDefault), claim("c", "1Gi")},
			func(s *stepper) {
				s.down(faults.Update, "persistentvolumeclaims")
				s.bad(`can't update PersistentVolumeClaim["ns/c"]: down`, "ns/c", "update claim ns/c")
				s.good("ns/c", "update claim ns/c")
				s.wantEvents()
			},
		},
		"of no class, beside a default one": {
			[]informer.Object{class("d", "x.io/p", byDefault), claim("c", "1Gi", ofClass(""), marked(volume.AnnMigratedTo, "y"))},
			func(s *stepper) {
				s.good("ns/c")
				s.wantEvents("Normal FailedBinding no persistent volumes available for this claim and no storage class is set")
			},
		},
		"pending": {
			[]informer.Object{claim("c", "1Gi", func(c *corev1.PersistentVolumeClaim) {
				c.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending, Capacity: size("5Gi")}
			})},
			func(s *stepper) {
				s.down(faults.Update, "persistentvolumeclaims/status")
				s.bad("updating claim ns/c: down", "ns/c", "update claim/status ns/c")
				s.good("ns/c", "update claim/status ns/c")
				s.good("ns/c")
				s.wantPhases("", "", "c", corev1.ClaimPending)
			},
		},
		"lost": {
			[]informer.Object{claim("c", "1Gi", bound("gone"))},
			func(s *stepper) {
				s.down(faults.Update, "persistentvolumeclaims/status")
				s.bad("updating claim ns/c: down", "ns/c", "update claim/status ns/c")
				s.wantEvents()
				s.good("ns/c", "update claim/status ns/c")
				s.wantEvents("Warning ClaimLost Bound claim has lost its PersistentVolume. Data on the volume is lost!")
				s.good("ns/c")
				s.wantEvents()
			},
		},
		"lost, and annotated before": {
			[]informer.Object{claim("c", "1Gi", bound("gone"), func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimLost })},
			func(s *stepper) {
				s.good("ns/c") // what else its status says is left alone
				s.wantEvents()
			},
		},
		"not before the volume is available": {
			[]informer.Object{pv("a", "5Gi"), claim("c", "1Gi")},
			func(s *stepper) {
				s.good("ns/c")
				s.good("a", "update volume/status a")
				s.good("ns/c", bind...)
			},
		},
		"bound to a volume of another, without a completed binding": {
			[]informer.Object{pv("a", "5Gi", reserved("d")), claim("c", "1Gi", wants("a"), marked(volume.AnnBoundByController, "yes"))},
			func(s *stepper) {
				s.bad(`invalid binding of claim "ns/c" to volume "a": volume already claimed by "ns/d"`, "ns/c")
				s.wantEvents(`Warning FailedBinding volume "a" already bound to a different claim.`)
			},
		},
		"bound, its volume is not": {
			[]informer.Object{free("a"), claim("c", "1Gi", bound("a"))},
			func(s *stepper) { s.good("ns/c", "update volume a", "update volume/status a") },
		},
		"not bound, its volume is": {
			[]informer.Object{free("a", reserved("c")), claim("c", "1Gi", wants("a"))},
			func(s *stepper) {
				s.good("ns/c", bind...)
				if a := s.volume("a").Annotations; len(a) > 0 {
					s.Errorf("who reserved the volume is annotated as the controller: %v", a)
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) { byHand(t, tt.objects, tt.test) })
	}
}

// TestVolumeSteps: what is read and written about volumes, and what after failures.
func TestVolumeSteps(t *testing.T) {
	const phase = "update volume/status a"
	byName := func(s *stepper) types.UID { return s.claim("c").UID }
	for name, tt := range map[string]struct {
		objects []informer.Object
		test    func(*stepper)
	}{
		"free": {[]informer.Object{pv("a", "5Gi")}, func(s *stepper) {
			s.down(faults.Update, "persistentvolumes/status")
			s.bad("updating volume a: down", "a", phase)
			s.good("a", phase)
			s.good("a")
		}},
		"reserved": {[]informer.Object{pv("a", "5Gi", reserved("c"))}, func(s *stepper) { s.good("a", phase) }},
		"annotated for a driver": {[]informer.Object{pv("a", "5Gi", made("kubernetes.io/gce-pd"))}, func(s *stepper) {
			s.down(faults.Update, "persistentvolumes")
			s.bad("updating volume a: down", "a", "update volume a")
			s.good("a", "update volume a", phase)
			s.good("a")
		}},
		"no longer of a driver": {[]informer.Object{pv("a", "5Gi", made("x.io/p"), annotated(volume.AnnMigratedTo, "y"))}, func(s *stepper) {
			s.good("a", "update volume a", phase)
			if a := s.volume("a").Annotations; len(a) != 1 {
				s.Errorf("annotations %v", a)
			}
		}},
		"of a claim that has not had its turn": {nil, func(s *stepper) {
			s.good("a")
			s.add(claim("c", "1Gi"))
			s.add(pv("a", "5Gi", of("c", byName(s))))
			s.good("a", "ns/c")
		}},
		"of a bound claim": {[]informer.Object{claim("c", "1Gi", wants("a"))}, func(s *stepper) {
			s.add(pv("a", "5Gi", of("c", byName(s))))
			s.good("a", phase)
			s.wantPhases("a", corev1.VolumeBound, "", "")
		}},
		"of a claim that the cache does not have": {nil, func(s *stepper) {
			s.claimCache.Hold()
			s.add(claim("c", "1Gi"))
			s.add(pv("a", "5Gi", of("c", byName(s))))
			s.lag()
			s.down(faults.Get, "persistentvolumeclaims")
			s.bad("reading claim ns/c: down", "a", "get claim ns/c")
			s.good("a", "get claim ns/c", "ns/c")
		}},
		"of a claim in place of the one that the cache has": {[]informer.Object{claim("c", "1Gi")}, func(s *stepper) {
			s.claimCache.Hold()
			s.delete(claimAt("c"))
			s.add(claim("c", "1Gi"))
			s.add(pv("a", "5Gi", of("c", byName(s))))
			s.lag()
			s.good("a", "get claim ns/c", "ns/c")
		}},
		"of a former claim": {[]informer.Object{claim("c", "1Gi"), pv("a", "5Gi", of("c", "former"), policy(corev1.PersistentVolumeReclaimRetain))}, func(s *stepper) {
			s.down(faults.Update, "persistentvolumes/status")
			s.bad("updating volume a: down", "a", "get claim ns/c", phase)
			s.good("a", "get claim ns/c", phase)
			s.good("a", "get claim ns/c")
			s.wantPhases("a", corev1.VolumeReleased, "", "")
		}},
		"released": {
			[]informer.Object{pv("a", "5Gi", of("c", "former"), inPhase(corev1.VolumeReleased), policy(corev1.PersistentVolumeReclaimRetain))},
			func(s *stepper) { s.good("a") },
		},
		"failed": {
			[]informer.Object{pv("a", "5Gi", of("c", "former"), inPhase(corev1.VolumeFailed), policy(corev1.PersistentVolumeReclaimRetain))},
			func(s *stepper) { s.good("a") },
		},
		"released, deletion fails": {
			[]informer.Object{pv("a", "5Gi", of("c", "former"), inPhase(corev1.VolumeReleased), policy(corev1.PersistentVolumeReclaimDelete), made("kubernetes.io/nfs"), withFinalizer(volume.PVDeletionInTreeProtectionFinalizer))},
			func(s *stepper) {
				s.down(faults.Update, "persistentvolumes/status")
				s.bad("updating volume a: down", "a", phase)
				s.wantEvents()
				s.good("a", phase)
				s.wantEvents("Warning VolumeFailedDelete no deletable volume plugin matched")
				s.good("a")
				s.wantEvents()
			},
		},
		"released, a driver deletes it": {
			[]informer.Object{pv("a", "5Gi", of("c", "former"), inPhase(corev1.VolumeReleased), policy(corev1.PersistentVolumeReclaimRecycle), made("kubernetes.io/gce-pd"), annotated(volume.AnnMigratedTo, "pd.csi.storage.gke.io"))},
			func(s *stepper) { s.good("a") },
		},
		"of another mode": {[]informer.Object{claim("c", "1Gi")}, func(s *stepper) {
			s.add(pv("a", "5Gi", of("c", byName(s)), func(v *corev1.PersistentVolume) { v.Spec.VolumeMode = new(corev1.PersistentVolumeBlock) }))
			s.good("a")
		}},
		"of a claim that is bound elsewhere": {[]informer.Object{claim("c", "1Gi", bound("b"))}, func(s *stepper) {
			s.add(pv("a", "5Gi", of("c", byName(s)), annotated(volume.AnnBoundByController, "yes")))
			s.down(faults.Update, "persistentvolumes")
			s.bad("updating volume a: down", "a", "update volume a")
			s.down(faults.Update, "persistentvolumes/status")
			s.bad("updating volume a: down", "a", "update volume a", phase)
			s.good("a", phase)
		}},
		"made for nobody, of a policy": {[]informer.Object{claim("c", "1Gi", bound("b"))}, func(s *stepper) {
			s.add(pv("a", "5Gi", of("c", byName(s)), made("x.io/p"), policy(corev1.PersistentVolumeReclaimRetain)))
			s.good("a", "update volume a", phase)
			s.wantPhases("a", corev1.VolumeAvailable, "", "")
		}},
	} {
		t.Run(name, func(t *testing.T) { byHand(t, tt.objects, tt.test) })
	}
}

func withFinalizer(name string) func(*corev1.PersistentVolume) {
	return func(v *corev1.PersistentVolume) { v.Finalizers = []string{name} }
}

// TestRecycleSteps: before a volume is given up, its newest state is read.
func TestRecycleSteps(t *testing.T) {
	const read, phase = "get volume a", "update volume/status a"
	recycled := func() *corev1.PersistentVolume {
		return pv("a", "5Gi", of("c", "former"), inPhase(corev1.VolumeReleased), policy(corev1.PersistentVolumeReclaimRecycle))
	}
	for name, tt := range map[string]struct {
		others []informer.Object
		change func(*stepper, *corev1.PersistentVolume) // which the cache does not know
		want   []string
	}{
		"":                      {want: []string{read, phase}},
		"free":                  {change: func(_ *stepper, v *corev1.PersistentVolume) { v.Spec.ClaimRef = nil }, want: []string{read}},
		"reserved":              {change: func(_ *stepper, v *corev1.PersistentVolume) { v.Spec.ClaimRef.UID = "" }, want: []string{read}},
		"of another":            {[]informer.Object{claim("d", "1Gi")}, ofClaim("d"), []string{read}},
		"of another, bound":     {[]informer.Object{claim("d", "1Gi", bound("a"))}, ofClaim("d"), []string{read}},
		"of one bound to other": {[]informer.Object{claim("d", "1Gi", bound("b"))}, ofClaim("d"), []string{read, phase}},
		"of one of its name":    {[]informer.Object{claim("d", "1Gi")}, func(_ *stepper, v *corev1.PersistentVolume) { of("d", "former")(v) }, []string{read, phase}},
		"used by a later claim": {[]informer.Object{claim("c", "1Gi"), controllerstest.Complete(using("p", "c"))}, nil, []string{"get claim ns/c", read, phase}},
		"used":                  {[]informer.Object{controllerstest.Complete(using("p", "c"))}, nil, []string{read}},
	} {
		t.Run(name, func(t *testing.T) {
			byHand(t, append(tt.others, recycled()), func(s *stepper) {
				if tt.change != nil {
					s.lag()
					change(s.bench, s.volume("a"), func(v *corev1.PersistentVolume) { tt.change(s, v) })
				}
				s.down(faults.Get, "persistentvolumes")
				s.bad("reading volume a: down", "a", slices.DeleteFunc(slices.Clone(tt.want), func(r string) bool { return r == phase })...)
				s.good("a", tt.want...)
			})
		})
	}
}

func ofClaim(name string) func(*stepper, *corev1.PersistentVolume) {
	return func(s *stepper, v *corev1.PersistentVolume) { of(name, s.claim(name).UID)(v) }
}

// TestGoneSteps: what is looked at when something is deleted.
func TestGoneSteps(t *testing.T) {
	byHand(t, []informer.Object{free("a", reserved("c")), free("b"), claim("c", "1Gi", wants("a")), claim("d", "1Gi", ofClass("x"))}, func(s *stepper) {
		s.good("nothing")
		s.good("ns/nothing")
		for _, name := range []string{"c", "d"} {
			s.delete(claimAt(name))
		}
		s.good("ns/c", "a")
		s.good("ns/c")
		s.good("ns/d")
		for _, name := range []string{"a", "b"} {
			s.delete(target(name))
		}
		s.good("a", "ns/c")
		s.good("a")
		s.good("b")
	})
}

// TestLagSteps: what a cache has that is older than the controller's own writes is not acted on.
func TestLagSteps(t *testing.T) {
	byHand(t, []informer.Object{free("a"), claim("c", "1Gi")}, func(s *stepper) {
		s.lag()
		if err := s.step("ns/c", "update volume a", "update volume/status a", "update claim ns/c", "update claim/status ns/c"); err != nil {
			s.Error(err)
		}
		s.good("ns/c")
		s.good("a")
		s.volumeCache.Resume() // only the claim is old, and known to be bound
		synctest.Wait()
		s.good("a")
		s.lags = false
		s.resume()
		s.good("ns/c")
		s.good("a")
	})
}

// TestAgain: everything is looked at again, after the period.
func TestAgain(t *testing.T) {
	byHand(t, []informer.Object{free("a"), claim("c", "1Gi")}, func(s *stepper) {
		if got := s.queue.Take(); got != "(all)+15s a ns/c" {
			s.Errorf("queued %q", got)
		}
		s.good("(all)", "a", "ns/c")
		if r, err := s.controller.Reconcile(s.Context(), key("(all)")); err != nil || r.RequeueAfter != 15*time.Second {
			s.Errorf("got %v, %v", r, err)
		}
	})
}

// TestTurns: one claim or volume is acted on at a time, and who waits for its turn ends with its context.
func TestTurns(t *testing.T) {
	byHand(t, []informer.Object{free("a"), claim("c", "1Gi"), pv("b", "1Gi", pvClass("x"))}, func(s *stepper) {
		s.api.Inject(faults.Fault{Verb: faults.Update, Delay: time.Minute})
		done := make(chan error)
		go func() {
			done <- s.step("ns/c", "update volume a", "update volume/status a", "update claim ns/c", "update claim/status ns/c")
		}()
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(s.Context(), time.Second)
		defer cancel()
		if _, err := s.controller.Reconcile(ctx, key("b")); !errors.Is(err, context.DeadlineExceeded) {
			s.Errorf("got %v", err)
		}
		if err := <-done; err != nil {
			s.Error(err)
		}
		s.good("b", "update volume/status b")
	})
}

// TestOldRules: states that the server stored under older rules, and would refuse today.
func TestOldRules(t *testing.T) {
	selecting := claim("selecting", "1Gi", func(c *corev1.PersistentVolumeClaim) {
		c.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "k", Operator: "Near"}}}
	})
	unknown := pv("unknown", "5Gi", of("gone", "former"), inPhase(corev1.VolumeReleased), policy("Burn"))
	byHand(t, []informer.Object{old{selecting}, old{unknown}, old{class("modeless", "x.io/p")}, claim("c", "1Gi", ofClass("modeless"))}, func(s *stepper) {
		s.bad(`VolumeBindingMode not set for StorageClass "modeless"`, "ns/c")
		s.bad(`error finding PV for claim "ns/selecting": error creating internal label selector for claim: ns/selecting: "Near" is not a valid label selector operator`, "ns/selecting")
		if err := s.step("unknown", "update volume/status unknown"); !apierrors.IsNotFound(err) {
			s.Error(err)
		}
		status := s.api.Requests()[0].Object.(*corev1.PersistentVolume).Status
		if status.Phase != corev1.VolumeFailed || status.Message != "Volume has unrecognized PersistentVolumeReclaimPolicy" {
			s.Errorf("status %+v", status)
		}
	})
}
