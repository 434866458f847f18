package statefulset_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
)

const (
	keep = appsv1.RetainPersistentVolumeClaimRetentionPolicyType
	drop = appsv1.DeletePersistentVolumeClaimRetentionPolicyType
)

// TestClaimsStay: claims are created before their pod, and remain when that goes.
func TestClaimsStay(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.node()
		create(b, web(2, withClaims("data")))
		b.after(time.Minute)
		b.wantClaims("data-web-0 data-web-1")
		created := ""
		for _, w := range b.api.Writes() {
			if w.Verb == faults.Create && w.Target.Resource.Resource != "controllerrevisions" {
				created += w.Target.Resource.Resource + " "
			}
		}
		if created != "persistentvolumeclaims pods persistentvolumeclaims pods " {
			t.Errorf("created %s", created)
		}
		uid := b.claimList()[1].UID
		b.scale(1)
		b.after(time.Minute)
		b.scale(2)
		b.after(time.Minute)
		b.wantPods("web-0=web:1+ web-1=web:1+")
		if b.claimList()[1].UID != uid {
			t.Error("the claim was replaced")
		}
	})
}

// TestRetention: claims get the owners with which the garbage collector deletes them.
func TestRetention(t *testing.T) {
	for name, tt := range map[string]struct {
		policy           func(*appsv1.StatefulSet)
		running, smaller string
	}{
		"never":           {keeping(keep, keep), "data-web-0 data-web-1", "data-web-0 data-web-1"},
		"with the set":    {keeping(drop, keep), "data-web-0<StatefulSet/web data-web-1<StatefulSet/web", "data-web-0<StatefulSet/web data-web-1<StatefulSet/web"},
		"with their pods": {keeping(keep, drop), "data-web-0 data-web-1", "data-web-0 data-web-1<Pod/web-1"},
		"with either":     {keeping(drop, drop), "data-web-0<StatefulSet/web data-web-1<StatefulSet/web", "data-web-0<StatefulSet/web data-web-1<Pod/web-1"},
		"either, in parallel": {func(set *appsv1.StatefulSet) {
			parallel(set)
			keeping(drop, drop)(set)
		}, "data-web-0<StatefulSet/web data-web-1<StatefulSet/web", "data-web-0<StatefulSet/web data-web-1<Pod/web-1"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bench) {
				b.node()
				create(b, web(2, withClaims("data"), tt.policy))
				b.after(time.Minute)
				b.wantClaims(tt.running)
				b.scale(1)
				b.after(time.Minute)
				b.wantClaims(tt.smaller)
				b.wantPods("web-0=web:1+")
			})
		})
	}
}

// TestRetentionChanges: another policy changes the owners of the claims of running pods.
func TestRetentionChanges(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.node()
		create(b, web(1, withClaims("data")))
		b.after(time.Minute)
		b.events.Take()
		b.change(keeping(drop, keep))
		b.after(time.Minute)
		b.wantClaims("data-web-0<StatefulSet/web")
		b.wantEvents("Normal SuccessfulUpdate Update Pod web-0 in StatefulSet web successful")
		b.change(keeping(keep, keep))
		b.after(time.Minute)
		b.wantClaims("data-web-0")
	})
}

// TestClaimOfPredecessor: a pod is not created while its claim is about to go with the pod before it.
func TestClaimOfPredecessor(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.node()
		create(b, web(2, withClaims("data"), keeping(keep, drop)))
		b.after(time.Minute)
		b.scale(1)
		b.after(time.Minute)
		b.scale(2)
		b.after(time.Minute)
		b.wantPods("web-0=web:1+")
		b.remove(at(claims(), "data-web-1"), metav1.DeleteOptions{}) // as the garbage collector does
		b.after(time.Minute)
		b.wantPods("web-0=web:1+ web-1=web:1+")
		b.wantClaims("data-web-0 data-web-1")
	})
}

// TestForeignClaim: a claim that something else controls is used and not owned, and that is reported.
func TestForeignClaim(t *testing.T) {
	inBubble(t, func(b *bench) {
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data-web-0", Namespace: "ns"}}
		claim.Spec = web(1, withClaims("data")).Spec.VolumeClaimTemplates[0].Spec
		claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "X", Name: "x", UID: "x", Controller: new(true)}}
		create(b, claim)
		create(b, web(1, withClaims("data"), keeping(drop, drop)))
		b.wantEvents("Normal SuccessfulCreate Create Pod web-0 in StatefulSet web successful",
			"Warning ConflictingController PersistentVolumeClaim data-web-0 has a conflicting OwnerReference that acts as a manging controller, "+
				"the retention policy is ignored for this claim")
		b.wantClaims("data-web-0<X/x")
		b.change(keeping(keep, keep))
		b.events.Take()
		b.remove(at(controllerstest.Pods(), "web-0"), metav1.DeleteOptions{})
		b.after(time.Minute)
		b.wantEvents("Normal SuccessfulCreate Create Pod web-0 in StatefulSet web successful") // it is nobody's business
	})
}

// TestClaimGoes: a claim that is being deleted keeps its pod waiting, and the set says so.
func TestClaimGoes(t *testing.T) {
	inBubble(t, func(b *bench) {
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data-web-0", Namespace: "ns", Finalizers: []string{"f/g"}}}
		claim.Spec = web(1, withClaims("data")).Spec.VolumeClaimTemplates[0].Spec
		create(b, claim)
		b.remove(at(claims(), "data-web-0"), metav1.DeleteOptions{})
		create(b, web(1, withClaims("data")))
		b.after(time.Second)
		b.wantPods("")
		b.wantEvents("Warning FailedCreate Create Pod web-0 in StatefulSet web failed error: pvc data-web-0 is being deleted")
		update(b, at(claims(), "data-web-0"), func(c *corev1.PersistentVolumeClaim) { c.Finalizers = nil })
		b.after(time.Minute)
		b.wantPods("web-0=web:1")
		b.wantClaims("data-web-0")
	})
}

// TestLostClaim: the claim of a pod that has not started is created again; that of one that runs is not.
func TestLostClaim(t *testing.T) {
	inBubble(t, func(b *bench) {
		create(b, web(1, withClaims("data")))
		b.wantPods("web-0=web:1")
		b.remove(at(claims(), "data-web-0"), metav1.DeleteOptions{})
		b.after(time.Minute)
		b.wantClaims("data-web-0")
		b.node()
		b.after(time.Minute)
		b.events.Take()
		b.remove(at(claims(), "data-web-0"), metav1.DeleteOptions{})
		b.after(time.Minute)
		b.wantClaims("")
		b.wantEvents()
		b.wantPods("web-0=web:1+")
	})
}

// TestRefusedClaims: without its claims a pod is not created; each refusal is reported.
func TestRefusedClaims(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.api.Inject(faults.Fault{Verb: faults.Create, Resource: "persistentvolumeclaims", Err: fmt.Errorf("quota"), Times: 2})
		create(b, web(1, withClaims("a", "b")))
		b.after(time.Minute)
		b.wantPods("web-0=web:1")
		b.wantClaims("a-web-0 b-web-0")
		b.wantEvents(
			"Warning FailedCreate Create Claim a-web-0 for Pod web-0 in StatefulSet web failed error: quota",
			"Warning FailedCreate Create Claim b-web-0 for Pod web-0 in StatefulSet web failed error: quota",
			"Warning FailedCreate Create Pod web-0 in StatefulSet web failed error: [failed to create PVC a-web-0: quota, failed to create PVC b-web-0: quota]",
			"Normal SuccessfulCreate Create Claim a-web-0 Pod web-0 in StatefulSet web success",
			"Normal SuccessfulCreate Create Claim b-web-0 Pod web-0 in StatefulSet web success",
			"Normal SuccessfulCreate Create Pod web-0 in StatefulSet web successful")
	})
}

// TestRefusedOwners: that a claim cannot be given its owner is reported.
func TestRefusedOwners(t *testing.T) {
	for name, tt := range map[string]struct {
		when   string // the pod is at the time
		events []string
	}{
		"pending": {"pending", nil},
		"running": {"running", []string{"Normal SuccessfulUpdate Update Pod web-0 in StatefulSet web successful"}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bench) {
				if tt.when == "running" {
					b.node()
				}
				create(b, web(1, withClaims("data")))
				b.after(time.Minute)
				b.events.Take()
				b.api.Inject(faults.Fault{Verb: faults.Update, Resource: "persistentvolumeclaims", Err: errors.New("no")})
				b.change(keeping(drop, drop))
				b.after(time.Minute)
				b.wantClaims("data-web-0<StatefulSet/web")
				b.wantEvents(append(tt.events,
					"Warning FailedUpdate Update Pod web-0 in StatefulSet web failed error: could not update claim data-web-0 for delete policy ownerRefs: no")...)
			})
		})
	}
}

// TestRefusedClaimsOfAdopted: that a pod that is adopted cannot be given its claims is reported.
func TestRefusedClaimsOfAdopted(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.node()
		create(b, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-0", Namespace: "ns", Labels: app()}})
		b.after(time.Minute)
		b.api.Inject(faults.Fault{Verb: faults.Create, Resource: "persistentvolumeclaims", Err: errors.New("quota"), Times: -1})
		create(b, web(1, withClaims("data")))
		b.after(time.Second)
		told := b.events.Take()
		if !slices.ContainsFunc(told, func(e string) bool {
			return strings.HasPrefix(e, "Warning FailedUpdate Update Pod web-0 in StatefulSet web failed error: ") && strings.HasSuffix(e, "quota")
		}) {
			t.Errorf("events %q", told)
		}
	})
}

// TestAdoptedWithoutClaims: the volumes of a pod cannot change, so that adopting one without the claims is reported.
func TestAdoptedWithoutClaims(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.node()
		create(b, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-0", Namespace: "ns", Labels: app()}})
		b.after(time.Minute)
		create(b, web(1, withClaims("data")))
		b.after(time.Second)
		b.wantClaims("data-web-0")
		failed := false
		for _, e := range b.events.Take() {
			failed = failed || strings.HasPrefix(e, "Warning FailedUpdate Update Pod web-0 in StatefulSet web failed error: ")
		}
		if !failed {
			t.Error("no failure was reported")
		}
	})
}

// TestClaimsRefused: that the owners of a pod's claims cannot be set is a failed update of the pod, when it is created, while it
// is pending and when it runs.
func TestClaimsRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		do   func(b *bench, refuse func())
		also []string
	}{
		"created": {func(b *bench, refuse func()) {
			set := web(1, withClaims("data"), keeping(drop, keep))
			claim := set.Spec.VolumeClaimTemplates[0].DeepCopy()
			claim.Namespace, claim.Name = "ns", "data-web-0"
			create(b, claim)
			refuse()
			create(b, set)
		}, nil},
		"pending": {func(b *bench, refuse func()) {
			create(b, web(1, withClaims("data"), keeping(keep, keep)))
			refuse()
			b.change(keeping(drop, keep))
		}, nil},
		"running": {func(b *bench, refuse func()) {
			b.node()
			create(b, web(1, withClaims("data"), keeping(keep, keep)))
			b.after(time.Minute)
			refuse()
			b.change(keeping(drop, keep))
		}, []string{"Normal SuccessfulUpdate Update Pod web-0 in StatefulSet web successful"}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bench) {
				tt.do(b, func() {
					b.events.Take()
					b.api.Inject(faults.Fault{Verb: faults.Update, Resource: "persistentvolumeclaims", Err: errors.New("no")})
				})
				b.after(time.Minute)
				b.wantEvents(append(tt.also, "Warning FailedUpdate Update Pod web-0 in StatefulSet web failed error: "+
					"could not update claim data-web-0 for delete policy ownerRefs: no")...)
				b.wantClaims("data-web-0<StatefulSet/web")
			})
		})
	}
}
