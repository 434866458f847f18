package rootca_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/rootca"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/lag"
)

const (
	create = "create configmaps a/kube-root-ca.crt"
	update = "update configmaps a/kube-root-ca.crt"
)

var (
	namespaces = corev1.SchemeGroupVersion.WithResource("namespaces")
	configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")
	published  = client.Target{Resource: configMaps, Namespace: "a", Name: "kube-root-ca.crt"}
)

// bench is a running controller with its API, in a bubble.
type bench struct {
	*testing.T
	api        *controllerstest.API
	configMaps *lag.Source[*corev1.ConfigMap]
}

func inBubble(t *testing.T, test func(*bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t, api: controllerstest.Start(t, controllerstest.Options{})}
		b.configMaps = controllerstest.Source[*corev1.ConfigMap](b.api, configMaps)
		detect := informer.Options{DetectMutations: func(err error) { t.Error(err) }}
		in := rootca.Sources{
			Namespaces: informer.New(controllerstest.Source[*corev1.Namespace](b.api, namespaces), detect),
			ConfigMaps: informer.New(b.configMaps, detect),
		}
		loop := controllers.NewLoop(rootca.New(in, b.api, []byte("PEM")), controllers.Options{})
		controllerstest.Go(t, in.Namespaces, in.ConfigMaps, loop)
		synctest.Wait()
		test(b)
	})
}

// namespace creates the namespace a.
func (b *bench) namespace() {
	b.Helper()
	controllerstest.Add(b, b.api, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
	synctest.Wait()
}

func (b *bench) configMap() *corev1.ConfigMap {
	b.Helper()
	cm, err := client.As[*corev1.ConfigMap](b.api.Others.Get(b.Context(), published))
	if err != nil {
		b.Fatal(err)
	}
	return cm
}

// change writes what somebody else makes of the ConfigMap.
func (b *bench) change(cm *corev1.ConfigMap) {
	b.Helper()
	if _, err := b.api.Others.Update(b.Context(), published, cm, metav1.UpdateOptions{}); err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
}

// wantPublished compares what the namespace has with what it should have.
func (b *bench) wantPublished() {
	b.Helper()
	if cm := b.configMap(); len(cm.Data) != 1 || cm.Data["ca.crt"] != "PEM" || cm.Annotations["kubernetes.io/description"] == "" {
		b.Errorf("published is %v %v", cm.Data, cm.Annotations)
	}
}

// wantWrites compares what the controller wrote since the last call.
func (b *bench) wantWrites(want ...string) {
	b.Helper()
	var got []string
	for _, r := range b.api.Writes() {
		got = append(got, r.String())
	}
	b.api.Reset()
	if !slices.Equal(got, want) {
		b.Errorf("wrote %q, want %q", got, want)
	}
}

func TestPublisher(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.namespace()
		b.wantPublished()
		b.wantWrites(create)
		for name, change := range map[string]func(*corev1.ConfigMap){
			"other data":     func(cm *corev1.ConfigMap) { cm.Data["ca.crt"] = "forged" },
			"more data":      func(cm *corev1.ConfigMap) { cm.Data["more"] = "x" },
			"no data":        func(cm *corev1.ConfigMap) { cm.Data = nil },
			"no description": func(cm *corev1.ConfigMap) { cm.Annotations = nil },
		} {
			b.Log(name)
			cm := b.configMap()
			change(cm)
			b.change(cm)
			b.wantPublished()
			b.wantWrites(update)
		}
		cm := b.configMap()
		cm.Annotations = map[string]string{"kubernetes.io/description": "ours", "more": "x"}
		b.change(cm)
		b.wantWrites() // any description will do
		if err := b.api.Others.Delete(b.Context(), published, metav1.DeleteOptions{}); err != nil {
			b.Fatal(err)
		}
		synctest.Wait()
		b.wantPublished()
		time.Sleep(time.Hour)
		b.wantWrites(create)
	})
}

// TestForged: somebody was faster, and published something else.
func TestForged(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.configMaps.Hold()
		controllerstest.Add(b, b.api, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: rootca.ConfigMapName}, Data: map[string]string{"ca.crt": "forged"},
		})
		b.namespace()
		b.wantWrites(create)
		b.configMaps.Resume()
		time.Sleep(time.Second)
		b.wantPublished()
		b.wantWrites(update)
	})
}

// TestFailures: what cannot be created is tried again, unless there is no longer a namespace for it.
func TestFailures(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		want []string
	}{
		"down":         {errors.New("down"), []string{create, create}},
		"no namespace": {apierrors.NewNotFound(namespaces.GroupResource(), "a"), []string{create}},
		"terminating":  {terminating(), []string{create}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bench) {
				b.api.Inject(faults.Fault{Err: tt.err})
				b.namespace()
				time.Sleep(5 * time.Millisecond)
				synctest.Wait()
				b.wantWrites(tt.want...)
			})
		})
	}
}

// terminating is how admission refuses to create something in a namespace that is being deleted.
func terminating() error {
	err := apierrors.NewForbidden(configMaps.GroupResource(), rootca.ConfigMapName, errors.New("going"))
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	return err
}

// TestRestoreFails: what cannot be restored is tried again.
func TestRestoreFails(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.namespace()
		b.wantWrites(create)
		b.api.Inject(faults.Fault{Verb: faults.Update, Err: errors.New("down")})
		b.change(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: rootca.ConfigMapName}, Data: map[string]string{"ca.crt": "forged"}})
		time.Sleep(5 * time.Millisecond)
		synctest.Wait()
		b.wantPublished()
		b.wantWrites(update, update)
	})
}

// TestNamespaceChanges: a namespace that was given up is looked at again when it changes, unless it is being deleted.
func TestNamespaceChanges(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.api.Inject(faults.Fault{Err: terminating(), Times: -1})
		b.namespace()
		b.wantWrites(create)
		at := client.Target{Resource: namespaces, Name: "a"}
		label := client.Patch{Type: types.MergePatchType, Data: []byte(`{"metadata":{"labels":{"x":"y"}}}`)}
		if _, err := b.api.Others.Patch(b.Context(), at, label, metav1.PatchOptions{}); err != nil {
			b.Fatal(err)
		}
		synctest.Wait()
		b.wantWrites(create)
		if err := b.api.Others.Delete(b.Context(), at, metav1.DeleteOptions{}); err != nil {
			b.Fatal(err)
		}
		synctest.Wait()
		b.wantWrites()
	})
}
