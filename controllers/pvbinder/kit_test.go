package pvbinder_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-helpers/storage/volume"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/internal/trial"
	"github.com/keelson-dev/keelson/controllers/pvbinder"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/lag"
)

func volumes() schema.GroupVersionResource {
	return corev1.SchemeGroupVersion.WithResource("persistentvolumes")
}

func claims() schema.GroupVersionResource {
	return corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims")
}

// bench is a running controller with an API, in a bubble.
type bench struct {
	*testing.T
	api         *controllerstest.API
	recorder    *controllerstest.Recorder
	claimCache  *lag.Source[*corev1.PersistentVolumeClaim]
	volumeCache *lag.Source[*corev1.PersistentVolume]
}

// inBubble runs test against a controller; the objects are there before it starts.
func inBubble(t *testing.T, objects []informer.Object, test func(*bench)) {
	t.Helper()
	inBench(t, objects, func(b *bench, c controllers.Controller) {
		controllerstest.Go(b.T, controllers.NewLoop(c, controllers.Options{Workers: 5}))
		// A claim that comes before its volume is available has to wait for the next round.
		b.round()
		test(b)
	})
}

// inBench runs test in a bubble, on a controller whose informers run.
func inBench(t *testing.T, objects []informer.Object, test func(*bench, controllers.Controller)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		api := controllerstest.Start(t, controllerstest.Options{Objects: slices.DeleteFunc(slices.Clone(objects), isOld)})
		b := &bench{T: t, api: api, recorder: &controllerstest.Recorder{}}
		b.claimCache = controllerstest.Source[*corev1.PersistentVolumeClaim](api, claims())
		b.volumeCache = controllerstest.Source[*corev1.PersistentVolume](api, volumes())
		in := pvbinder.Sources{
			Volumes: cached(t, stored(b.volumeCache, objects)),
			Claims:  cached(t, stored(b.claimCache, objects)),
			Classes: cached(t, stored(controllerstest.Source[*storagev1.StorageClass](api, storagev1.SchemeGroupVersion.WithResource("storageclasses")), objects)),
			Pods:    cached(t, controllerstest.Source[*corev1.Pod](api, controllerstest.Pods())),
		}
		c := pvbinder.New(in, api, b.recorder, pvbinder.Options{})
		controllerstest.Go(t, in.Volumes, in.Claims, in.Classes, in.Pods)
		test(b, c)
	})
}

// old is an object that the server would refuse today: only the caches have it.
type old struct{ informer.Object }

func isOld(obj informer.Object) bool { _, is := obj.(old); return is }

func stored[T informer.Object](source informer.Source[T], objects []informer.Object) informer.Source[T] {
	var all []T
	for _, obj := range objects {
		if o, is := obj.(old); is {
			if t, is := o.Object.(T); is {
				all = append(all, t)
			}
		}
	}
	return trial.Stored[T]{Source: source, Objects: all}
}

func cached[T informer.Object](t *testing.T, source informer.Source[T]) *informer.Informer[T] {
	return informer.New(source, informer.Options{DetectMutations: func(err error) { t.Error(err) }})
}

func (b *bench) add(obj informer.Object) {
	b.Helper()
	controllerstest.Add(b, b.api, obj)
	synctest.Wait()
}

// round passes the time until everything has been looked at again.
func (b *bench) round() {
	time.Sleep(16 * time.Second)
	synctest.Wait()
}

func (b *bench) volume(name string) *corev1.PersistentVolume {
	b.Helper()
	synctest.Wait()
	pv, err := client.As[*corev1.PersistentVolume](b.api.Others.Get(b.Context(), client.Target{Resource: volumes(), Name: name}))
	if err != nil {
		b.Fatal(err)
	}
	return pv
}

func (b *bench) claim(name string) *corev1.PersistentVolumeClaim {
	b.Helper()
	synctest.Wait()
	c, err := client.As[*corev1.PersistentVolumeClaim](b.api.Others.Get(b.Context(), claimAt(name)))
	if err != nil {
		b.Fatal(err)
	}
	return c
}

func claimAt(name string) client.Target {
	return client.Target{Resource: claims(), Namespace: "ns", Name: name}
}

// change updates a volume or claim as a user does.
func change[T informer.Object](b *bench, obj T, how func(T)) {
	b.Helper()
	how(obj)
	at := client.Target{Resource: volumes(), Namespace: obj.GetNamespace(), Name: obj.GetName()}
	if at.Namespace != "" {
		at.Resource = claims()
	}
	if _, err := b.api.Others.Update(b.Context(), at, obj, metav1.UpdateOptions{}); err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
}

func (b *bench) delete(at client.Target) {
	b.Helper()
	if err := b.api.Others.Delete(b.Context(), at, metav1.DeleteOptions{}); err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
}

// wantEvents compares the set of events since the last call: repetitions do not count.
func (b *bench) wantEvents(want ...string) {
	b.Helper()
	synctest.Wait()
	got := b.recorder.Take()
	slices.Sort(got)
	slices.Sort(want)
	if got = slices.Compact(got); !slices.Equal(got, want) {
		b.Errorf("events\n %q, want\n %q", got, want)
	}
}

// wantPhases compares the phase of a volume and that of a claim; empty names are skipped.
func (b *bench) wantPhases(pv string, vp corev1.PersistentVolumePhase, claim string, cp corev1.PersistentVolumeClaimPhase) {
	b.Helper()
	if pv != "" {
		if got := b.volume(pv).Status.Phase; got != vp {
			b.Errorf("volume %s is %s, want %s", pv, got, vp)
		}
	}
	if claim != "" {
		if got := b.claim(claim).Status.Phase; got != cp {
			b.Errorf("claim %s is %s, want %s", claim, got, cp)
		}
	}
}

// wantBound checks all that a binding writes.
func (b *bench) wantBound(pvName, claimName string) {
	b.Helper()
	pv, c := b.volume(pvName), b.claim(claimName)
	ref := pv.Spec.ClaimRef
	switch {
	case pv.Status.Phase != corev1.VolumeBound || c.Status.Phase != corev1.ClaimBound:
		b.Errorf("volume %s is %s, claim %s %s", pvName, pv.Status.Phase, claimName, c.Status.Phase)
	case ref == nil || ref.UID != c.UID || ref.Namespace != "ns" || ref.Name != claimName || ref.Kind != "PersistentVolumeClaim" || ref.APIVersion != "v1":
		b.Errorf("volume %s is bound to %v", pvName, ref)
	case c.Spec.VolumeName != pvName || c.Annotations[volume.AnnBindCompleted] != "yes":
		b.Errorf("claim %s is bound to %q, annotated %v", claimName, c.Spec.VolumeName, c.Annotations)
	case fmt.Sprint(c.Status.AccessModes, sizeOf(c.Status.Capacity)) != fmt.Sprint(pv.Spec.AccessModes, sizeOf(pv.Spec.Capacity)):
		b.Errorf("claim %s has modes %v, capacity %v", claimName, c.Status.AccessModes, c.Status.Capacity)
	}
}

func sizeOf(list corev1.ResourceList) string {
	q := list[corev1.ResourceStorage]
	return q.String()
}

func size(s string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(s)}
}

// pv makes a volume of a CSI driver; changes alter it.
func pv(name, capacity string, changes ...func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: size(capacity), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "csi.example.com", VolumeHandle: name}},
		},
	}
	for _, c := range changes {
		c(v)
	}
	return v
}

func claim(name, request string, changes ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: size(request)},
		},
	}
	for _, f := range changes {
		f(c)
	}
	return c
}

func class(name, provisioner string, changes ...func(*storagev1.StorageClass)) *storagev1.StorageClass {
	c := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner}
	for _, f := range changes {
		f(c)
	}
	return c
}

func waiting(c *storagev1.StorageClass) {
	c.VolumeBindingMode = new(storagev1.VolumeBindingWaitForFirstConsumer)
}

func byDefault(c *storagev1.StorageClass) {
	c.Annotations = map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}
}

func pvClass(name string) func(*corev1.PersistentVolume) {
	return func(v *corev1.PersistentVolume) { v.Spec.StorageClassName = name }
}

func ofClass(name string) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = &name }
}

func wants(volume string) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = volume }
}

// reserved binds a volume to a claim of namespace ns in advance.
func reserved(claim string) func(*corev1.PersistentVolume) {
	return func(v *corev1.PersistentVolume) {
		v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "ns", Name: claim}
	}
}

func policy(p corev1.PersistentVolumeReclaimPolicy) func(*corev1.PersistentVolume) {
	return func(v *corev1.PersistentVolume) { v.Spec.PersistentVolumeReclaimPolicy = p }
}

func annotated(key, value string) func(*corev1.PersistentVolume) {
	return func(v *corev1.PersistentVolume) { metav1.SetMetaDataAnnotation(&v.ObjectMeta, key, value) }
}

// using makes a pod with a claim.
func using(pod, claim string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: pod},
		Spec: corev1.PodSpec{Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}}}},
	}
}
