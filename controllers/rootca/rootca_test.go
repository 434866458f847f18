package rootca_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/rootca"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/internal/fakeapi"
	"github.com/keelson-dev/keelson/lifecycle"
)

var (
	namespaces = corev1.SchemeGroupVersion.WithResource("namespaces")
	configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")
)

// bench is a running controller with a server, in a bubble.
type bench struct {
	*testing.T
	api *fakeapi.Server
}

func inBubble(t *testing.T, before func(*bench, fakeapi.Action) error, test func(t *testing.T, b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t}
		b.api = fakeapi.New(fakeapi.Options{Before: func(a fakeapi.Action) error {
			if before == nil {
				return nil
			}
			return before(b, a)
		}})
		detect := informer.Options{DetectMutations: func(err error) { t.Error(err) }}
		in := rootca.Sources{
			Namespaces: informer.New(fakeapi.Source[*corev1.Namespace](b.api, namespaces), detect),
			ConfigMaps: informer.New(fakeapi.Source[*corev1.ConfigMap](b.api, configMaps), detect),
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			loop := controllers.NewLoop(rootca.New(in, named{b.api, t}, []byte("PEM")), controllers.Options{})
			done <- lifecycle.Group(in.Namespaces, in.ConfigMaps, loop).Run(ctx)
		}()
		synctest.Wait()
		test(t, b)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// named holds updates to naming what they update, as servers demand.
type named struct {
	*fakeapi.Server
	t *testing.T
}

func (n named) Update(ctx context.Context, at client.Target, obj runtime.Object, o metav1.UpdateOptions) (runtime.Object, error) {
	if at.Name != "kube-root-ca.crt" {
		n.t.Errorf("updates %+v", at)
	}
	return n.Server.Update(ctx, at, obj, o)
}

func (b *bench) namespace(name string) {
	b.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NamespaceStatus{Phase: corev1.NamespaceActive}}
	if _, err := b.api.Create(b.Context(), client.Target{Resource: namespaces}, ns, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
}

func at(namespace string) client.Target {
	return client.Target{Resource: configMaps, Namespace: namespace, Name: "kube-root-ca.crt"}
}

// published holds what a namespace has to what it should.
func (b *bench) published(namespace string) {
	b.Helper()
	cm, err := client.As[*corev1.ConfigMap](b.api.Get(b.Context(), at(namespace)))
	if err != nil {
		b.Fatal(err)
	}
	if len(cm.Data) != 1 || cm.Data["ca.crt"] != "PEM" || cm.Annotations["kubernetes.io/description"] == "" {
		b.Errorf("published is %v %v", cm.Data, cm.Annotations)
	}
}

func (b *bench) wantActions(want ...string) {
	b.Helper()
	var got []string
	for _, a := range b.api.Actions() {
		if a.Target.Resource == configMaps {
			got = append(got, a.String())
		}
	}
	b.api.Reset()
	if !slices.Equal(got, want) {
		b.Errorf("did %q, want %q", got, want)
	}
}

func TestPublisher(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, b *bench) {
		b.namespace("a")
		b.published("a")
		b.wantActions("create configmaps a/kube-root-ca.crt")
		for name, change := range map[string]func(*corev1.ConfigMap){
			"other data":     func(cm *corev1.ConfigMap) { cm.Data["ca.crt"] = "forged" },
			"more data":      func(cm *corev1.ConfigMap) { cm.Data["more"] = "x" },
			"no data":        func(cm *corev1.ConfigMap) { cm.Data = nil },
			"no description": func(cm *corev1.ConfigMap) { cm.Annotations = nil },
		} {
			cm, err := client.As[*corev1.ConfigMap](b.api.Get(b.Context(), at("a")))
			if err != nil {
				t.Fatal(err)
			}
			change(cm)
			cm.ResourceVersion = ""
			if _, err := b.api.Update(b.Context(), at("a"), cm, metav1.UpdateOptions{}); err != nil {
				t.Fatal(name, err)
			}
			synctest.Wait()
			b.published("a")
			b.wantActions("update configmaps a/kube-root-ca.crt", "update configmaps a/kube-root-ca.crt")
		}
		cm, err := client.As[*corev1.ConfigMap](b.api.Get(b.Context(), at("a")))
		if err != nil {
			t.Fatal(err)
		}
		cm.Annotations = map[string]string{"kubernetes.io/description": "ours", "more": "x"}
		if _, err := b.api.Update(b.Context(), at("a"), cm, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		b.wantActions("update configmaps a/kube-root-ca.crt") // any description will do
		if err := b.api.Delete(b.Context(), at("a"), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		b.published("a")
		time.Sleep(time.Hour)
		b.wantActions("delete configmaps a/kube-root-ca.crt", "create configmaps a/kube-root-ca.crt")
	})
}

// TestForged: somebody was faster, and published something else.
func TestForged(t *testing.T) {
	forged := false
	inBubble(t, func(b *bench, a fakeapi.Action) error {
		if a.Verb != fakeapi.Create || a.Target.Resource != configMaps || forged {
			return nil
		}
		forged = true
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: rootca.ConfigMapName}, Data: map[string]string{"ca.crt": "forged"}}
		_, err := b.api.Create(b.Context(), a.Target, cm, metav1.CreateOptions{})
		return err
	}, func(t *testing.T, b *bench) {
		b.namespace("a")
		time.Sleep(time.Second)
		synctest.Wait()
		b.published("a")
	})
}

// TestFailures: what cannot be created is tried again, unless there is nowhere to.
func TestFailures(t *testing.T) {
	terminating := apierrors.NewForbidden(configMaps.GroupResource(), rootca.ConfigMapName, errors.New("going"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for name, tt := range map[string]struct {
		err  error
		want int // creations
	}{
		"down":         {errors.New("down"), 2},
		"no namespace": {apierrors.NewNotFound(namespaces.GroupResource(), "a"), 1},
		"terminating":  {terminating, 1},
	} {
		t.Run(name, func(t *testing.T) {
			fail := tt.err
			inBubble(t, func(_ *bench, a fakeapi.Action) error {
				if a.Target.Resource != configMaps {
					return nil
				}
				err := fail
				fail = nil
				return err
			}, func(t *testing.T, b *bench) {
				b.namespace("a")
				time.Sleep(5 * time.Millisecond)
				synctest.Wait()
				if got := len(b.api.Actions()) - 1; got != tt.want {
					t.Errorf("%d creations, want %d", got, tt.want)
				}
			})
		})
	}
}

// TestRestoreFails: what cannot be restored is tried again.
func TestRestoreFails(t *testing.T) {
	fails := 0
	inBubble(t, func(_ *bench, a fakeapi.Action) error {
		if a.Verb == fakeapi.Update && a.Target.Resource == configMaps {
			if fails++; fails == 2 { // the first is the forger's
				return errors.New("down")
			}
		}
		return nil
	}, func(t *testing.T, b *bench) {
		b.namespace("a")
		forged := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kube-root-ca.crt"}, Data: map[string]string{"ca.crt": "forged"}}
		if _, err := b.api.Update(b.Context(), at("a"), forged, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond)
		synctest.Wait()
		b.published("a")
		if fails != 3 {
			t.Errorf("%d updates", fails)
		}
	})
}

// TestNamespaceChanges: a namespace that was given up is looked at again when it changes, unless it is being deleted.
func TestNamespaceChanges(t *testing.T) {
	refused := apierrors.NewForbidden(configMaps.GroupResource(), rootca.ConfigMapName, errors.New("going"))
	refused.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	inBubble(t, func(_ *bench, a fakeapi.Action) error {
		if a.Target.Resource == configMaps {
			return refused
		}
		return nil
	}, func(t *testing.T, b *bench) {
		b.namespace("a")
		const create = "create configmaps a/kube-root-ca.crt"
		b.wantActions(create)
		for _, tt := range []struct {
			phase corev1.NamespacePhase
			want  []string
		}{{corev1.NamespaceTerminating, nil}, {corev1.NamespaceActive, []string{create}}} {
			ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Status: corev1.NamespaceStatus{Phase: tt.phase}}
			if _, err := b.api.Update(b.Context(), client.Target{Resource: namespaces, Name: "a", Subresource: "status"}, ns, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			b.wantActions(tt.want...)
		}
	})
}
