package pvprotection_test

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/keelson-dev/keelson/controllers/pvprotection"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/lifecycle"
)

func volumes() schema.GroupVersionResource {
	return corev1.SchemeGroupVersion.WithResource("persistentvolumes")
}

func volume(name string, phase corev1.PersistentVolumePhase, finalizers ...string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: finalizers},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/x"}},
		},
		Status: corev1.PersistentVolumeStatus{Phase: phase},
	}
}

// bench is a running controller with an API, in a bubble.
type bench struct {
	*testing.T
	api *controllerstest.API
}

func inBubble(t *testing.T, test func(*bench)) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{t, controllerstest.Start(t, controllerstest.Options{})}
		in := informer.New(controllerstest.Source[*corev1.PersistentVolume](b.api, volumes()), informer.Options{DetectMutations: func(err error) { t.Error(err) }})
		controllerstest.Go(t, in, controllers.NewLoop(pvprotection.New(in, b.api), controllers.Options{Workers: 5}))
		synctest.Wait()
		test(b)
	})
}

func (b *bench) get(name string) (*corev1.PersistentVolume, error) {
	synctest.Wait()
	return client.As[*corev1.PersistentVolume](b.api.Others.Get(b.Context(), client.Target{Resource: volumes(), Name: name}))
}

// want compares a volume's finalizers; "gone" is no volume.
func (b *bench) want(name, finalizers string) {
	b.Helper()
	got := "gone"
	if pv, err := b.get(name); err == nil {
		got = fmt.Sprint(pv.Finalizers)
	} else if !apierrors.IsNotFound(err) {
		b.Fatal(err)
	}
	if got != finalizers {
		b.Errorf("volume %s: %s, want %s", name, got, finalizers)
	}
}

func (b *bench) delete(name string) {
	b.Helper()
	if err := b.api.Others.Delete(b.Context(), client.Target{Resource: volumes(), Name: name}, metav1.DeleteOptions{}); err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
}

// TestFinalizer: a volume stays while it is bound.
func TestFinalizer(t *testing.T) {
	inBubble(t, func(b *bench) {
		controllerstest.Add(b, b.api, volume("free", corev1.VolumeAvailable))
		controllerstest.Add(b, b.api, volume("bound", corev1.VolumeBound, "example.com/a"))
		b.want("free", "[kubernetes.io/pv-protection]")
		b.want("bound", "[example.com/a kubernetes.io/pv-protection]")
		b.delete("free")
		b.delete("bound")
		b.want("free", "gone")
		b.want("bound", "[example.com/a kubernetes.io/pv-protection]")
		pv, err := b.get("bound")
		if err != nil {
			b.Fatal(err)
		}
		pv.Status.Phase = corev1.VolumeReleased
		if _, err := b.api.Others.Update(b.Context(), client.Target{Resource: volumes(), Name: "bound", Subresource: "status"}, pv, metav1.UpdateOptions{}); err != nil {
			b.Fatal(err)
		}
		b.want("bound", "[example.com/a]")
	})
}

// TestFailures: failed requests are repeated.
func TestFailures(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.api.Inject(faults.Fault{Verb: faults.Update, Err: errors.New("down"), Times: 3})
		controllerstest.Add(b, b.api, volume("v", corev1.VolumeAvailable))
		time.Sleep(time.Second)
		b.want("v", "[kubernetes.io/pv-protection]")
	})
}

// TestNothingToDo: volumes that have what they should are left alone, as are those that go before it is their turn.
func TestNothingToDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{t, controllerstest.Start(t, controllerstest.Options{})}
		in := informer.New(controllerstest.Source[*corev1.PersistentVolume](b.api, volumes()), informer.Options{})
		controllerstest.Add(b, b.api, volume("protected", corev1.VolumeAvailable, pvprotection.Finalizer))
		for _, pv := range []*corev1.PersistentVolume{
			volume("leaving", corev1.VolumeAvailable, "example.com/a"), volume("bound", corev1.VolumeBound, pvprotection.Finalizer),
		} {
			controllerstest.Add(b, b.api, pv)
			b.delete(pv.Name)
		}
		c := pvprotection.New(in, b.api)
		var q trial.Queue
		c.Watch(&q)
		controllerstest.Go(t, in)
		synctest.Wait()
		if got := q.Take(); got != "" {
			t.Errorf("queued %q", got)
		}
		for _, name := range []string{"protected", "leaving", "bound", "gone"} {
			if _, err := c.Reconcile(t.Context(), controllers.Key{Name: name}); err != nil || len(b.api.Writes()) > 0 {
				t.Errorf("%s: %v; %v", name, err, b.api.Writes())
			}
		}
	})
}

// A volume is protected from being deleted while it is bound. The API and the cache of it are in memory.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	api, err := controllerstest.New(controllerstest.Options{
		Objects: []informer.Object{volume("disk", corev1.VolumeAvailable)},
		Before: func(r faults.Request) error {
			if pv, ok := r.Object.(*corev1.PersistentVolume); ok {
				fmt.Println(r, pv.Finalizers)
				stop()
			}
			return nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	in := informer.New(controllerstest.Source[*corev1.PersistentVolume](api, volumes()), informer.Options{})
	loop := controllers.NewLoop(pvprotection.New(in, api), controllers.Options{})
	if err := lifecycle.Group(api, in, loop).Run(ctx); err != nil {
		fmt.Println(err)
	}
	// Output: update persistentvolumes disk [kubernetes.io/pv-protection]
}
