package ephemeral_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/ephemeral"
	"github.com/keelson-dev/keelson/controllers/internal/trial"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/lifecycle"
)

var claims = corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims")

// bench is a running controller with its API, in a bubble.
type bench struct {
	*testing.T
	api      *controllerstest.API
	recorder *controllerstest.Recorder
}

func inBubble(t *testing.T, o controllerstest.Options, test func(*bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{t, controllerstest.Start(t, o), &controllerstest.Recorder{}}
		detect := informer.Options{DetectMutations: func(err error) { t.Error(err) }}
		in := ephemeral.Sources{
			Pods:   informer.New(controllerstest.Source[*corev1.Pod](b.api, controllerstest.Pods()), detect),
			Claims: informer.New(controllerstest.Source[*corev1.PersistentVolumeClaim](b.api, claims), detect),
		}
		loop := controllers.NewLoop(ephemeral.New(in, b.api, b.recorder), controllers.Options{})
		controllerstest.Go(t, in.Pods, in.Claims, loop)
		synctest.Wait()
		test(b)
	})
}

func template() *corev1.PersistentVolumeClaimTemplate {
	return &corev1.PersistentVolumeClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": "d"}},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{"ReadWriteOnce"}, StorageClassName: new("fast"),
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse("1Gi")}},
		},
	}
}

// pod returns a pod with an ephemeral volume for each name, beside one of another kind.
func pod(volumes ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
	p.Spec.Volumes = []corev1.Volume{{Name: "plain", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	for _, name := range volumes {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: template()},
		}})
	}
	return p
}

func (b *bench) add(obj informer.Object) informer.Object {
	b.Helper()
	stored := controllerstest.Add(b, b.api, obj)
	synctest.Wait()
	return stored
}

func (b *bench) delete(of client.Target) {
	b.Helper()
	if err := b.api.Others.Delete(b.Context(), of, metav1.DeleteOptions{}); err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
}

func claimAt(name string) client.Target {
	return client.Target{Resource: claims, Namespace: "ns", Name: name}
}

// wantClaims compares the names of all claims.
func (b *bench) wantClaims(want ...string) {
	b.Helper()
	list, err := b.api.Others.List(b.Context(), client.Target{Resource: claims}, metav1.ListOptions{})
	if err != nil {
		b.Fatal(err)
	}
	var got []string
	for _, claim := range list.(*corev1.PersistentVolumeClaimList).Items {
		got = append(got, claim.Namespace+"/"+claim.Name)
	}
	if !slices.Equal(got, want) {
		b.Errorf("claims %q, want %q", got, want)
	}
}

func TestClaims(t *testing.T) {
	inBubble(t, controllerstest.Options{}, func(b *bench) {
		b.add(pod())
		b.wantClaims()
		two := pod("one", "two")
		two.Name = "q"
		owner := b.add(two)
		b.wantClaims("ns/q-one", "ns/q-two")
		got, err := b.api.Others.Get(b.Context(), claimAt("q-one"))
		if err != nil {
			b.Fatal(err)
		}
		claim, want := got.(*corev1.PersistentVolumeClaim), template()
		want.Spec.VolumeMode = new(corev1.PersistentVolumeFilesystem)
		ref := metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "q", UID: owner.GetUID(), Controller: new(true), BlockOwnerDeletion: new(true)}
		if !reflect.DeepEqual(claim.Labels, want.Labels) || !reflect.DeepEqual(claim.Annotations, want.Annotations) ||
			!reflect.DeepEqual(claim.OwnerReferences, []metav1.OwnerReference{ref}) {
			b.Errorf("metadata %+v", claim.ObjectMeta)
		}
		if claim.Spec.Resources.Requests.Storage().String() != "1Gi" || *claim.Spec.StorageClassName != "fast" || len(claim.Spec.AccessModes) != 1 {
			b.Errorf("spec %+v", claim.Spec)
		}
		b.delete(claimAt("q-two"))
		b.wantClaims("ns/q-one", "ns/q-two") // made again
		if told := b.recorder.Take(); len(told) > 0 {
			b.Errorf("events %q", told)
		}
	})
}

// TestEnd: a pod that is being deleted gets no claims, also not after it had them.
func TestEnd(t *testing.T) {
	inBubble(t, controllerstest.Options{}, func(b *bench) {
		held := pod("one")
		held.Finalizers = []string{"example.com/hold"}
		b.add(held)
		b.wantClaims("ns/p-one")
		b.delete(client.Target{Resource: controllerstest.Pods(), Namespace: "ns", Name: "p"})
		b.delete(claimAt("p-one"))
		time.Sleep(time.Hour)
		b.wantClaims()
	})
}

// TestEndBeforeStart: a pod is being deleted when the controller starts.
func TestEndBeforeStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held := pod("one")
		held.Finalizers = []string{"example.com/hold"}
		api := controllerstest.Start(t, controllerstest.Options{})
		b := &bench{t, api, &controllerstest.Recorder{}}
		b.add(held)
		b.delete(client.Target{Resource: controllerstest.Pods(), Namespace: "ns", Name: "p"})
		in := ephemeral.Sources{
			Pods:   informer.New(controllerstest.Source[*corev1.Pod](api, controllerstest.Pods()), informer.Options{}),
			Claims: informer.New(controllerstest.Source[*corev1.PersistentVolumeClaim](api, claims), informer.Options{}),
		}
		controllerstest.Go(t, in.Pods, in.Claims, controllers.NewLoop(ephemeral.New(in, api, b.recorder), controllers.Options{}))
		time.Sleep(time.Hour)
		synctest.Wait()
		b.wantClaims()
	})
}

// TestConflict: a claim of that name is another's, until it is deleted; the volumes after it wait.
func TestConflict(t *testing.T) {
	inBubble(t, controllerstest.Options{}, func(b *bench) {
		other := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p-one"}, Spec: template().Spec}
		b.add(other)
		b.add(pod("one", "two"))
		b.wantClaims("ns/p-one")
		told := b.recorder.Take()
		const want = "Warning FailedBinding ephemeral volume one: PVC ns/p-one was not created for pod ns/p (pod is not owner)"
		if len(told) == 0 || slices.Compact(told)[0] != want || len(slices.Compact(told)) != 1 {
			b.Errorf("events %q, want %q", told, want)
		}
		b.delete(claimAt("p-one"))
		b.wantClaims("ns/p-one", "ns/p-two")
	})
}

// TestFailure: what the server refuses is told and tried again.
func TestFailure(t *testing.T) {
	var refuse atomic.Bool
	refuse.Store(true)
	o := controllerstest.Options{Before: func(r faults.Request) error {
		if refuse.Load() && r.Verb == faults.Create {
			return errors.New("no disks")
		}
		return nil
	}}
	inBubble(t, o, func(b *bench) {
		stored := b.add(pod("one")).(*corev1.Pod)
		b.wantClaims()
		all := b.recorder.Events()
		want := events.Event{
			Regarding: events.About(corev1.SchemeGroupVersion.WithKind("Pod"), stored), Type: "Warning",
			Reason: "FailedBinding", Message: "ephemeral volume one: create PVC p-one: no disks",
		}
		if len(all) == 0 || !reflect.DeepEqual(all[0], want) {
			b.Errorf("events %+v, want %+v", all, want)
		}
		refuse.Store(false)
		time.Sleep(time.Hour)
		synctest.Wait()
		b.wantClaims("ns/p-one")
	})
}

func TestName(t *testing.T) {
	inBubble(t, controllerstest.Options{}, func(b *bench) {
		in := ephemeral.Sources{
			Pods:   informer.New(controllerstest.Source[*corev1.Pod](b.api, controllerstest.Pods()), informer.Options{}),
			Claims: informer.New(controllerstest.Source[*corev1.PersistentVolumeClaim](b.api, claims), informer.Options{}),
		}
		if name := ephemeral.New(in, b.api, b.recorder).Name(); name != "ephemeral-volume-controller" {
			b.Errorf("named %s", name)
		}
	})
}

// TestWatches: pods without such volumes, or that end, are no work; nor are those that end or go before it is their turn.
func TestWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := controllerstest.Start(t, controllerstest.Options{})
		b := &bench{t, api, &controllerstest.Recorder{}}
		in := ephemeral.Sources{
			Pods:   informer.New(controllerstest.Source[*corev1.Pod](api, controllerstest.Pods()), informer.Options{}),
			Claims: informer.New(controllerstest.Source[*corev1.PersistentVolumeClaim](api, claims), informer.Options{}),
		}
		ends := pod("one")
		ends.Name, ends.Finalizers = "ends", []string{"example.com/hold"}
		b.add(ends)
		b.delete(client.Target{Resource: controllerstest.Pods(), Namespace: "ns", Name: "ends"})
		without := pod()
		without.Name = "without"
		b.add(without)
		b.add(pod("one"))
		var q trial.Queue
		c := ephemeral.New(in, api, b.recorder)
		c.Watch(&q)
		controllerstest.Go(t, in.Pods, in.Claims)
		synctest.Wait()
		if got := q.Take(); got != "ns/p" {
			t.Errorf("queued %q", got)
		}
		for _, name := range []string{"ends", "gone"} {
			if _, err := c.Reconcile(t.Context(), controllers.Key{Namespace: "ns", Name: name}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		b.wantClaims()
	})
}

// A pod with an ephemeral volume gets its claim. The API and the caches of it are in memory.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	api, err := controllerstest.New(controllerstest.Options{Objects: []informer.Object{controllerstest.Complete(pod("scratch"))}, Before: func(r faults.Request) error {
		if r.Verb == faults.Create && r.Target.Resource == claims {
			fmt.Println(r)
			stop()
		}
		return nil
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	in := ephemeral.Sources{
		Pods:   informer.New(controllerstest.Source[*corev1.Pod](api, controllerstest.Pods()), informer.Options{}),
		Claims: informer.New(controllerstest.Source[*corev1.PersistentVolumeClaim](api, claims), informer.Options{}),
	}
	loop := controllers.NewLoop(ephemeral.New(in, api, events.Discard()), controllers.Options{})
	fmt.Println(lifecycle.Group(api, in.Pods, in.Claims, loop).Run(ctx))
	// Output:
	// create persistentvolumeclaims ns/p-scratch
	// <nil>
}
