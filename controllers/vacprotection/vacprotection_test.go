package vacprotection_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/vacprotection"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/lifecycle"
)

var (
	classes = storagev1.SchemeGroupVersion.WithResource("volumeattributesclasses")
	volumes = corev1.SchemeGroupVersion.WithResource("persistentvolumes")
	claims  = corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims")
)

const finalizer = "kubernetes.io/vac-protection"

// bench is a running controller with its API, in a bubble.
type bench struct {
	*testing.T
	api *controllerstest.API
}

func sources(api *controllerstest.API, o informer.Options) vacprotection.Sources {
	return vacprotection.Sources{
		Classes: informer.New(controllerstest.Source[*storagev1.VolumeAttributesClass](api, classes), o),
		Volumes: informer.New(controllerstest.Source[*corev1.PersistentVolume](api, volumes), o),
		Claims:  informer.New(controllerstest.Source[*corev1.PersistentVolumeClaim](api, claims), o),
	}
}

func inBubble(t *testing.T, test func(*bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{t, controllerstest.Start(t, controllerstest.Options{})}
		in := sources(b.api, informer.Options{DetectMutations: func(err error) { t.Error(err) }})
		c := vacprotection.New(in, b.api)
		if c.Name() != "volumeattributesclass-protection-controller" {
			t.Errorf("named %s", c.Name())
		}
		controllerstest.Go(t, in.Classes, in.Volumes, in.Claims, controllers.NewLoop(c, controllers.Options{}))
		synctest.Wait()
		test(b)
	})
}

func class(name string, finalizers ...string) *storagev1.VolumeAttributesClass {
	return &storagev1.VolumeAttributesClass{
		ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: finalizers}, DriverName: "example.com", Parameters: map[string]string{"iops": "1"},
	}
}

func (b *bench) add(obj informer.Object) {
	b.Helper()
	controllerstest.Add(b, b.api, obj)
	synctest.Wait()
}

func (b *bench) delete(of client.Target) {
	b.Helper()
	if err := b.api.Others.Delete(b.Context(), of, metav1.DeleteOptions{}); err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
}

func (b *bench) patch(of client.Target, data string) {
	b.Helper()
	patch := client.Patch{Type: types.MergePatchType, Data: []byte(data)}
	if _, err := b.api.Others.Patch(b.Context(), of, patch, metav1.PatchOptions{}); err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
}

func classAt(name string) client.Target { return client.Target{Resource: classes, Name: name} }

// want compares the finalizers of a class; "gone" stands for no class.
func (b *bench) want(name string, finalizers ...string) {
	b.Helper()
	obj, err := b.api.Others.Get(b.Context(), classAt(name))
	got := []string{"gone"}
	if err == nil {
		got = obj.(*storagev1.VolumeAttributesClass).Finalizers
	} else if !apierrors.IsNotFound(err) {
		b.Fatal(err)
	}
	if !slices.Equal(got, finalizers) {
		b.Errorf("class %s: %q, want %q", name, got, finalizers)
	}
}

// TestUnused: a class has the finalizer, beside those of others, as long as it lives.
func TestUnused(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.add(class("a"))
		b.want("a", finalizer)
		b.delete(classAt("a"))
		b.want("a", "gone")
		b.add(class("b", "example.com/x"))
		b.want("b", "example.com/x", finalizer)
		b.patch(classAt("b"), `{"metadata":{"finalizers":null}}`)
		b.want("b", finalizer)
		b.patch(classAt("b"), `{"metadata":{"finalizers":["example.com/x","`+finalizer+`"]}}`)
		b.delete(classAt("b"))
		b.want("b", "example.com/x")
		b.patch(classAt("b"), `{"metadata":{"labels":{"a":"b"}}}`)
		b.want("b", "example.com/x") // which is not added to a class that is being deleted
	})
}

func claim(class *string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{"ReadWriteOnce"}, VolumeAttributesClassName: class,
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse("1Gi")}},
	}}
}

func volume(class string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}, Spec: corev1.PersistentVolumeSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{"ReadWriteOnce"}, VolumeAttributesClassName: &class,
		Capacity:               corev1.ResourceList{"storage": resource.MustParse("1Gi")},
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "example.com", VolumeHandle: "h"}},
	}}
}

// TestUsed: a class that is being deleted waits for everything that uses it, and not for what uses another one.
func TestUsed(t *testing.T) {
	claimAt := client.Target{Resource: claims, Namespace: "ns", Name: "c"}
	status := claimAt
	status.Subresource = "status"
	withStatus := func(s corev1.PersistentVolumeClaimStatus) *corev1.PersistentVolumeClaim {
		c := claim(nil)
		c.Status = s
		return c
	}
	for name, tt := range map[string]struct {
		user    informer.Object
		release func(*bench)
	}{
		"a claim is deleted":    {claim(new("a")), func(b *bench) { b.delete(claimAt) }},
		"a claim has the class": {withStatus(corev1.PersistentVolumeClaimStatus{CurrentVolumeAttributesClassName: new("a")}), func(b *bench) { b.patch(status, `{"status":{"currentVolumeAttributesClassName":"b"}}`) }},
		"a claim gets the class": {withStatus(corev1.PersistentVolumeClaimStatus{ModifyVolumeStatus: &corev1.ModifyVolumeStatus{TargetVolumeAttributesClassName: "a", Status: "InProgress"}}),
			func(b *bench) { b.patch(status, `{"status":{"modifyVolumeStatus":null}}`) }},
		"a volume is deleted": {volume("a"), func(b *bench) { b.delete(client.Target{Resource: volumes, Name: "v"}) }},
		"a volume gets another class": {volume("a"), func(b *bench) {
			b.patch(client.Target{Resource: volumes, Name: "v"}, `{"spec":{"volumeAttributesClassName":"b"}}`)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bench) {
				b.add(class("a"))
				b.add(class("b"))
				b.add(tt.user)
				b.delete(classAt("a"))
				time.Sleep(time.Hour)
				synctest.Wait()
				b.want("a", finalizer)
				b.delete(classAt("b"))
				b.want("b", "gone")
				tt.release(b)
				b.want("a", "gone")
			})
		})
	}
}

// TestRetry: a refused update is tried again.
func TestRetry(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.api.Inject(faults.Fault{Verb: faults.Update, Err: apierrors.NewConflict(classes.GroupResource(), "a", nil)})
		b.add(class("a"))
		b.want("a")
		time.Sleep(time.Second)
		synctest.Wait()
		b.want("a", finalizer)
	})
}

// TestNothingToDo: classes that have what they should are left alone, as are those that go before it is their turn; a class
// that is named twice is enqueued once, and none has no name.
func TestNothingToDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{t, controllerstest.Start(t, controllerstest.Options{})}
		in := sources(b.api, informer.Options{})
		b.add(class("protected", finalizer))
		b.add(class("leaving", "example.com/x"))
		b.delete(classAt("leaving"))
		claim := &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{"ReadWriteOnce"}, VolumeAttributesClassName: new("protected"),
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse("1Gi")}},
			},
			Status: corev1.PersistentVolumeClaimStatus{
				CurrentVolumeAttributesClassName: new("protected"), ModifyVolumeStatus: &corev1.ModifyVolumeStatus{Status: "Pending"},
			},
		}
		b.add(claim)
		c := vacprotection.New(in, b.api)
		var q keys
		c.Watch(&q)
		controllerstest.Go(t, in.Classes, in.Volumes, in.Claims)
		synctest.Wait()
		if len(q) > 0 {
			t.Errorf("queued %q", q)
		}
		b.delete(client.Target{Resource: claims, Namespace: "ns", Name: "c"})
		if !slices.Equal(q, keys{"protected"}) {
			t.Errorf("queued %q", q)
		}
		for _, name := range []string{"protected", "leaving", "gone"} {
			if _, err := c.Reconcile(t.Context(), controllers.Key{Name: name}); err != nil || len(b.api.Writes()) > 0 {
				t.Errorf("%s: %v; %v", name, err, b.api.Writes())
			}
		}
	})
}

// keys are the names that were queued.
type keys []string

func (q *keys) Add(k controllers.Key)                       { *q = append(*q, k.Name) }
func (q *keys) AddAfter(k controllers.Key, _ time.Duration) { q.Add(k) }

// A new class gets the finalizer. The API and the caches of it are in memory.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	api, err := controllerstest.New(controllerstest.Options{Objects: []informer.Object{class("gold")}, Before: func(r faults.Request) error {
		if r.Verb == faults.Update {
			fmt.Println(r)
			stop()
		}
		return nil
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	in := sources(api, informer.Options{})
	loop := controllers.NewLoop(vacprotection.New(in, api), controllers.Options{})
	fmt.Println(lifecycle.Group(api, in.Classes, in.Volumes, in.Claims, loop).Run(ctx))
	// Output:
	// update volumeattributesclasses gold
	// <nil>
}
