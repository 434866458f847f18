package pvcprotection_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/internal/trial"
	"github.com/keelson-dev/keelson/controllers/pvcprotection"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/lag"
	"github.com/keelson-dev/keelson/lifecycle"
)

func claims() schema.GroupVersionResource {
	return corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims")
}

func claimAt(name string) client.Target {
	return client.Target{Resource: claims(), Namespace: "ns", Name: name}
}

func podAt(name string) client.Target {
	return client.Target{Resource: controllerstest.Pods(), Namespace: "ns", Name: name}
}

// bench is a running controller with an API, in a bubble.
type bench struct {
	*testing.T
	api      *controllerstest.API
	podCache *lag.Source[*corev1.Pod]
}

func inBubble(t *testing.T, test func(*bench)) {
	synctest.Test(t, func(t *testing.T) {
		api := controllerstest.Start(t, controllerstest.Options{})
		b := &bench{T: t, api: api, podCache: controllerstest.Source[*corev1.Pod](api, controllerstest.Pods())}
		detect := informer.Options{DetectMutations: func(err error) { t.Error(err) }}
		in := pvcprotection.Sources{
			Claims: informer.New(controllerstest.Source[*corev1.PersistentVolumeClaim](api, claims()), detect),
			Pods:   informer.New(b.podCache, detect),
		}
		controllerstest.Go(t, in.Claims, in.Pods, controllers.NewLoop(pvcprotection.New(in, api), controllers.Options{Workers: 5}))
		synctest.Wait()
		test(b)
	})
}

func claim(name string, phase corev1.PersistentVolumeClaimPhase, finalizers ...string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Finalizers: finalizers},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
		Status: corev1.PersistentVolumeClaimStatus{Phase: phase},
	}
}

// using makes a pod with a claim.
func using(name, node, claim string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
		Spec: corev1.PodSpec{NodeName: node, Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}}}},
	}
}

// ephemeral makes a pod whose claim would be called NAME-data.
func ephemeral(name, node string) *corev1.Pod {
	pod := using(name, node, "")
	pod.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
		VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: claim("", "").Spec},
	}}
	return pod
}

func (b *bench) add(obj informer.Object) informer.Object {
	b.Helper()
	stored := controllerstest.Add(b, b.api, obj)
	synctest.Wait()
	return stored
}

func (b *bench) delete(at client.Target) {
	b.Helper()
	if err := b.api.Others.Delete(b.Context(), at, *metav1.NewDeleteOptions(0)); err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
}

// state is a claim's finalizers and condition, or "gone".
func (b *bench) state(name string) string {
	b.Helper()
	synctest.Wait()
	c, err := client.As[*corev1.PersistentVolumeClaim](b.api.Others.Get(b.Context(), claimAt(name)))
	if apierrors.IsNotFound(err) {
		return "gone"
	}
	if err != nil {
		b.Fatal(err)
	}
	state := fmt.Sprint(c.Finalizers)
	for _, condition := range c.Status.Conditions {
		state += fmt.Sprintf(" %s=%s %s: %s", condition.Type, condition.Status, condition.Reason, condition.Message)
	}
	return state
}

func (b *bench) want(name, state string) {
	b.Helper()
	if got := b.state(name); got != state {
		b.Errorf("claim %s: %s, want %s", name, got, state)
	}
}

const (
	protected = "[kubernetes.io/pvc-protection]"
	idle      = protected + " Unused=True NoPodsUsingPVC: No pods are currently referencing this PVC"
	busy      = protected + " Unused=False PodUsingPVC: A pod is currently referencing this PVC"
)

// TestFinalizer: a claim stays while a pod on a node has it.
func TestFinalizer(t *testing.T) {
	inBubble(t, func(b *bench) {
		for _, name := range []string{"free", "planned", "held", "ended"} {
			b.add(claim(name, corev1.ClaimPending))
			b.want(name, protected)
		}
		b.add(using("p", "", "planned"))
		b.add(using("q", "n", "held"))
		ended := using("r", "n", "ended")
		ended.Status.Phase = corev1.PodSucceeded
		b.add(ended)
		for _, name := range []string{"free", "planned", "held", "ended"} {
			b.delete(claimAt(name))
		}
		b.want("free", "gone")
		b.want("planned", "gone")
		b.want("held", protected)
		b.want("ended", protected) // the pod still has it
		b.delete(podAt("q"))
		b.want("held", "gone")
		b.delete(podAt("r"))
		b.want("ended", "gone")
	})
}

// TestOtherFinalizers: only its own finalizer is the controller's business.
func TestOtherFinalizers(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.add(claim("c", corev1.ClaimPending, "example.com/a", pvcprotection.Finalizer, "example.com/b"))
		b.delete(claimAt("c"))
		b.want("c", "[example.com/a example.com/b]")
	})
}

// TestUnused: the condition of bound claims follows the pods that have not ended, placed or not.
func TestUnused(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.add(claim("c", corev1.ClaimBound))
		b.add(claim("pending", corev1.ClaimPending))
		b.want("c", idle)
		b.want("pending", protected)
		b.add(using("p", "", "c"))
		b.add(using("x", "", "pending"))
		b.want("c", busy)
		b.want("pending", protected)

		time.Sleep(time.Hour)
		pod, err := client.As[*corev1.Pod](b.api.Others.Get(b.Context(), podAt("p")))
		if err != nil {
			b.Fatal(err)
		}
		pod.Status.Phase = corev1.PodFailed
		at := podAt("p")
		at.Subresource = "status"
		if _, err := b.api.Others.Update(b.Context(), at, pod, metav1.UpdateOptions{}); err != nil {
			b.Fatal(err)
		}
		b.want("c", idle)
		c, err := client.As[*corev1.PersistentVolumeClaim](b.api.Others.Get(b.Context(), claimAt("c")))
		if err != nil || !c.Status.Conditions[0].LastTransitionTime.Equal(new(metav1.Now())) {
			b.Errorf("since %v, %v", c.Status.Conditions, err)
		}
		b.api.Reset()
		b.delete(podAt("p"))
		if w := b.api.Writes(); len(w) > 0 {
			b.Errorf("writes without a change: %v", w)
		}
	})
}

// TestEphemeral: a claim of that name counts only if it was made for the pod, and not once its kubelet is done with it.
func TestEphemeral(t *testing.T) {
	inBubble(t, func(b *bench) {
		pod := b.add(ephemeral("p", "n"))
		own := claim("p-data", corev1.ClaimBound)
		own.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "p", UID: pod.GetUID(), Controller: new(true)}}
		b.add(own)
		b.want("p-data", busy)
		b.delete(claimAt("p-data"))
		b.want("p-data", busy)

		held := ephemeral("q", "n")
		held.Finalizers = []string{"example.com/hold"}
		q := b.add(held)
		of := claim("q-data", corev1.ClaimPending)
		of.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "q", UID: q.GetUID(), Controller: new(true)}}
		b.add(of)
		b.delete(claimAt("q-data"))
		b.want("q-data", protected)
		if err := b.api.Others.Delete(b.Context(), podAt("q"), *metav1.NewDeleteOptions(30)); err != nil {
			b.Fatal(err)
		}
		b.want("q-data", protected) // its containers have time to end
		b.delete(podAt("q"))
		b.want("q-data", "gone")

		b.add(ephemeral("r", "n"))
		b.add(claim("r-data", corev1.ClaimBound)) // of somebody else
		b.want("r-data", idle)
		b.delete(claimAt("r-data"))
		b.want("r-data", "gone")
	})
}

// TestLag: pods that the cache does not have yet are found on the server.
func TestLag(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.add(claim("c", corev1.ClaimBound))
		b.podCache.Hold()
		b.add(using("p", "n", "c"))
		b.want("c", idle)
		b.delete(claimAt("c"))
		if b.state("c") == "gone" {
			b.Error("a claim in use was removed")
		}
		b.podCache.Resume()
		synctest.Wait()
		b.delete(podAt("p"))
		b.want("c", "gone")
	})
}

// TestFailures: failed requests are repeated.
func TestFailures(t *testing.T) {
	for _, resource := range []string{"persistentvolumeclaims", "persistentvolumeclaims/status", "pods"} {
		inBubble(t, func(b *bench) {
			b.api.Inject(faults.Fault{Resource: resource, Err: errors.New("down"), Times: 3})
			b.add(claim("c", corev1.ClaimBound))
			time.Sleep(time.Second)
			b.want("c", idle)
			b.delete(claimAt("c"))
			time.Sleep(time.Second)
			b.want("c", "gone")
		})
	}
	inBubble(t, func(b *bench) {
		b.add(claim("c", corev1.ClaimBound))
		b.api.Inject(faults.Fault{Verb: faults.List, Resource: "pods", Err: errors.New("down")})
		b.delete(claimAt("c"))
		b.want("c", idle) // as long as nobody knows the pods
		time.Sleep(time.Second)
		b.want("c", "gone")
	})
}

// TestLeaving: a claim that others keep after its end is left alone.
func TestLeaving(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.add(claim("c", corev1.ClaimBound, "example.com/a"))
		b.add(using("p", "n", "c"))
		const kept = "[example.com/a kubernetes.io/pvc-protection] Unused=False PodUsingPVC: A pod is currently referencing this PVC"
		b.want("c", kept)
		b.delete(claimAt("c"))
		b.want("c", kept)
		b.delete(podAt("p"))
		b.want("c", strings.Replace(kept, " kubernetes.io/pvc-protection", "", 1))
		b.api.Reset()
		b.add(using("q", "n", "c"))
		if w := b.api.Writes(); len(w) > 0 {
			b.Errorf("writes: %v", w)
		}
	})
}

// TestWatches: only claims with something to do are enqueued, and each when its pods change.
func TestWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := controllerstest.Start(t, controllerstest.Options{})
		b := &bench{T: t, api: api}
		in := pvcprotection.Sources{
			Claims: informer.New(controllerstest.Source[*corev1.PersistentVolumeClaim](api, claims()), informer.Options{}),
			Pods:   informer.New(controllerstest.Source[*corev1.Pod](api, controllerstest.Pods()), informer.Options{}),
		}
		b.add(claim("unprotected", corev1.ClaimPending))
		settled := claim("settled", corev1.ClaimBound, pvcprotection.Finalizer)
		settled.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{Type: corev1.PersistentVolumeClaimUnused, Status: corev1.ConditionTrue}}
		b.add(settled)
		unknown := claim("unknown", corev1.ClaimBound, pvcprotection.Finalizer)
		b.add(unknown)
		leaving := settled.DeepCopy()
		leaving.Name = "leaving"
		b.add(leaving)
		b.delete(claimAt("leaving"))
		bare := settled.DeepCopy()
		bare.Name, bare.Finalizers = "bare", nil
		b.add(bare)
		var q trial.Queue
		c := pvcprotection.New(in, api)
		c.Watch(&q)
		controllerstest.Go(t, in.Claims, in.Pods)
		synctest.Wait()
		if got := q.Take(); got != "ns/bare ns/leaving ns/unknown ns/unprotected" {
			t.Errorf("queued %q", got)
		}
		if _, err := c.Reconcile(t.Context(), controllers.Key{Namespace: "ns", Name: "gone"}); err != nil || len(api.Writes()) > 0 {
			t.Errorf("%v, %v", err, api.Writes())
		}
	})
}

// A claim is protected from being deleted while a pod uses it. The API and the caches of it are in memory.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	api, err := controllerstest.New(controllerstest.Options{
		Objects: []informer.Object{claim("data", corev1.ClaimPending)},
		Before: func(r faults.Request) error {
			if c, ok := r.Object.(*corev1.PersistentVolumeClaim); ok && slices.Contains(c.Finalizers, pvcprotection.Finalizer) {
				fmt.Println(r, c.Finalizers)
				stop()
			}
			return nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	in := pvcprotection.Sources{
		Claims: informer.New(controllerstest.Source[*corev1.PersistentVolumeClaim](api, claims()), informer.Options{}),
		Pods:   informer.New(controllerstest.Source[*corev1.Pod](api, controllerstest.Pods()), informer.Options{}),
	}
	loop := controllers.NewLoop(pvcprotection.New(in, api), controllers.Options{})
	if err := lifecycle.Group(api, in.Claims, in.Pods, loop).Run(ctx); err != nil {
		fmt.Println(err)
	}
	// Output: update persistentvolumeclaims ns/data [kubernetes.io/pvc-protection]
}
