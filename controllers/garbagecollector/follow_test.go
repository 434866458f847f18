package garbagecollector_test

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/garbagecollector"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/lifecycle"
)

// follower is a collector whose kinds change, in a bubble.
type follower struct {
	*testing.T
	api *controllerstest.API
	c   *garbagecollector.Controller
}

// kind returns a kind of the core group with an informer that runs until the returned function is called.
func (f *follower) kind(name, resource string) (garbagecollector.Kind, func()) {
	gvk := corev1.SchemeGroupVersion.WithKind(name)
	objects := informer.New(controllerstest.Source[informer.Object](f.api, corev1.SchemeGroupVersion.WithResource(resource)), informer.Options{})
	ctx, stop := context.WithCancel(f.Context())
	controllerstest.Go(f, lifecycle.Func(func(end context.Context) error {
		defer context.AfterFunc(end, stop)()
		return objects.Run(ctx)
	}))
	return garbagecollector.Kind{GroupVersionKind: gvk, Resource: resource, Namespaced: true, Objects: objects}, stop
}

func (f *follower) follow(kinds ...garbagecollector.Kind) {
	f.Helper()
	if err := f.c.Follow(f.Context(), kinds); err != nil {
		f.Fatal(err)
	}
	f.wait()
}

func (f *follower) wait() {
	time.Sleep(time.Hour)
	synctest.Wait()
}

func (f *follower) create(resource string, obj informer.Object, owners ...metav1.OwnerReference) informer.Object {
	f.Helper()
	obj.SetNamespace("n")
	obj.SetOwnerReferences(owners)
	made, err := f.api.Others.Create(f.Context(), client.Target{Resource: corev1.SchemeGroupVersion.WithResource(resource), Namespace: "n"}, obj, metav1.CreateOptions{})
	if err != nil {
		f.Fatal(err)
	}
	return made.(informer.Object)
}

func (f *follower) delete(resource, name string, policy metav1.DeletionPropagation) {
	f.Helper()
	at := client.Target{Resource: corev1.SchemeGroupVersion.WithResource(resource), Namespace: "n", Name: name}
	if err := f.api.Others.Delete(f.Context(), at, metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
		f.Fatal(err)
	}
}

// exists fails unless an object exists, or does not.
func (f *follower) exists(resource, name string, want bool) {
	f.Helper()
	at := client.Target{Resource: corev1.SchemeGroupVersion.WithResource(resource), Namespace: "n", Name: name}
	if _, err := f.api.Others.Get(f.Context(), at); apierrors.IsNotFound(err) == want {
		f.Errorf("%s %s: %v", resource, name, err)
	}
}

func (f *follower) run(t *testing.T, before func(faults.Request) error, test func(f *follower)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f.T, f.api = t, controllerstest.Start(t, controllerstest.Options{Before: before})
		f.c = garbagecollector.New(nil, f.api, &controllerstest.Recorder{})
		test(f)
	})
}

func (f *follower) start() {
	f.Helper()
	controllerstest.Go(f, controllers.NewLoop(f.c, controllers.Options{Workers: 3}))
	f.wait()
}

func of(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }

func ref(kind string, of metav1.Object) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: kind, Name: of.GetName(), UID: of.GetUID()}
}

// TestFollow: references to kinds that come are judged, those to kinds that go are not.
func TestFollow(t *testing.T) {
	(&follower{}).run(t, nil, func(f *follower) {
		maps, _ := f.kind("ConfigMap", "configmaps")
		f.follow(maps) // before it starts
		owner := f.create("secrets", &corev1.Secret{ObjectMeta: of("owner")})
		f.create("configmaps", &corev1.ConfigMap{ObjectMeta: of("owned")}, ref("Secret", owner))
		f.create("configmaps", &corev1.ConfigMap{ObjectMeta: of("dangling")}, ref("Secret", &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "none", UID: "none"}}))
		f.create("configmaps", &corev1.ConfigMap{ObjectMeta: of("half")}, ref("Secret", owner),
			ref("ConfigMap", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "none", UID: "nobody"}}))
		f.start()
		f.exists("configmaps", "dangling", true) // nobody knows about secrets

		secrets, stop := f.kind("Secret", "secrets")
		f.follow(maps, secrets)
		f.exists("configmaps", "dangling", false)
		f.exists("configmaps", "owned", true)
		half, err := f.api.Others.Get(f.Context(), client.Target{Resource: configMaps, Namespace: "n", Name: "half"})
		if err != nil || len(half.(*corev1.ConfigMap).OwnerReferences) != 1 {
			t.Errorf("with one owner: %v, %v", half, err)
		}

		f.follow(maps)
		stop()
		f.delete("secrets", "owner", metav1.DeletePropagationBackground)
		f.wait()
		f.exists("configmaps", "owned", true) // nobody has seen it go

		secrets, _ = f.kind("Secret", "secrets")
		f.follow(maps, secrets)
		f.exists("configmaps", "owned", false)

		owner = f.create("configmaps", &corev1.ConfigMap{ObjectMeta: of("m")})
		f.create("secrets", &corev1.Secret{ObjectMeta: of("s")}, ref("ConfigMap", owner))
		f.delete("configmaps", "m", metav1.DeletePropagationForeground)
		f.wait()
		f.exists("secrets", "s", false)
		f.exists("configmaps", "m", false)
	})
}

// TestFollowReplaced: a kind whose informer is replaced keeps its objects, and what happened meanwhile is noticed.
func TestFollowReplaced(t *testing.T) {
	(&follower{}).run(t, nil, func(f *follower) {
		maps, _ := f.kind("ConfigMap", "configmaps")
		secrets, stop := f.kind("Secret", "secrets")
		f.follow(maps, secrets)
		f.start()
		kept, lost := f.create("secrets", &corev1.Secret{ObjectMeta: of("kept")}), f.create("secrets", &corev1.Secret{ObjectMeta: of("lost")})
		f.create("configmaps", &corev1.ConfigMap{ObjectMeta: of("a")}, ref("Secret", kept))
		f.create("configmaps", &corev1.ConfigMap{ObjectMeta: of("b")}, ref("Secret", lost))
		f.wait()
		stop()
		synctest.Wait()
		f.delete("secrets", "lost", metav1.DeletePropagationBackground)
		secrets, _ = f.kind("Secret", "secrets")
		f.follow(maps, secrets)
		f.exists("configmaps", "a", true)
		f.exists("configmaps", "b", false)
	})
}

// TestFollowEnded: informers that have ended, and contexts, do not hold it up.
func TestFollowEnded(t *testing.T) {
	(&follower{}).run(t, nil, func(f *follower) {
		maps, _ := f.kind("ConfigMap", "configmaps")
		f.follow(maps)
		f.start()
		secrets, stop := f.kind("Secret", "secrets")
		stop()
		synctest.Wait()
		f.follow(maps, secrets)
		idle := secrets
		idle.Objects = informer.New(controllerstest.Source[informer.Object](f.api, corev1.SchemeGroupVersion.WithResource("secrets")), informer.Options{})
		ctx, cancel := context.WithTimeout(f.Context(), time.Minute)
		defer cancel()
		if err := f.c.Follow(ctx, []garbagecollector.Kind{maps, idle}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("an informer that nobody runs: %v", err)
		}
	})
}

// TestUnserved: a resource that is not served for a moment does not make its objects count as gone.
func TestUnserved(t *testing.T) {
	var down atomic.Bool
	before := func(r faults.Request) error {
		if r.Verb == faults.Get && r.Target.Resource.Resource == "secrets" && down.Load() {
			return apierrors.NewGenericServerResponse(http.StatusNotFound, "get", schema.GroupResource{}, "", "404 page not found", 0, true)
		}
		return nil
	}
	(&follower{}).run(t, before, func(f *follower) {
		maps, _ := f.kind("ConfigMap", "configmaps")
		secrets, _ := f.kind("Secret", "secrets")
		f.follow(maps, secrets)
		f.start()
		owner := f.create("secrets", &corev1.Secret{ObjectMeta: of("owner")})
		f.wait()
		down.Store(true)
		f.create("configmaps", &corev1.ConfigMap{ObjectMeta: of("owned")}, ref("Secret", owner),
			ref("Secret", &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "owner", UID: "another"}}))
		f.wait()
		f.exists("configmaps", "owned", true)
		down.Store(false)
		f.wait()
		got, err := f.api.Others.Get(f.Context(), client.Target{Resource: configMaps, Namespace: "n", Name: "owned"})
		if err != nil || len(got.(*corev1.ConfigMap).OwnerReferences) != 1 {
			t.Errorf("afterwards: %v, %v", got, err)
		}
	})
}
