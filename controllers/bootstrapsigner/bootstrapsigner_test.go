package bootstrapsigner_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
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
	"github.com/keelson-dev/keelson/controllers/bootstrapsigner"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/lifecycle"
)

var (
	configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")
	secrets    = corev1.SchemeGroupVersion.WithResource("secrets")
	info       = client.Target{Resource: configMaps, Namespace: "kube-public", Name: "cluster-info"}
)

// bench is a running controller with an API, in a bubble.
type bench struct {
	*testing.T
	api *controllerstest.API
}

func inBubble(t *testing.T, test func(*bench), objects ...informer.Object) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t, api: controllerstest.Start(t, controllerstest.Options{Objects: objects})}
		detect := informer.Options{DetectMutations: func(err error) { t.Error(err) }}
		in := bootstrapsigner.Sources{
			ConfigMaps: informer.New(controllerstest.Source[*corev1.ConfigMap](b.api, configMaps), detect),
			Secrets:    informer.New(controllerstest.Source[*corev1.Secret](b.api, secrets), detect),
		}
		controllerstest.Go(t, in.ConfigMaps, in.Secrets, controllers.NewLoop(bootstrapsigner.New(in, b.api), controllers.Options{}))
		synctest.Wait()
		test(b)
	})
}

func clusterInfo(data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-public", Name: "cluster-info"}, Data: data}
}

func token(id string, changes ...func(*corev1.Secret)) *corev1.Secret {
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "bootstrap-token-" + id}, Type: "bootstrap.kubernetes.io/token",
		Data: map[string][]byte{"token-id": []byte(id), "token-secret": []byte("0123456789abcdef"), "usage-bootstrap-signing": []byte("true")},
	}
	for _, change := range changes {
		change(s)
	}
	return s
}

// wants compares the data of the ConfigMap with that of a kubeconfig and signatures of tokens.
func (b *bench) wants(content string, tokens ...string) {
	b.Helper()
	cm, err := client.As[*corev1.ConfigMap](b.api.Others.Get(b.Context(), info))
	if err != nil {
		b.Fatal(err)
	}
	want := map[string]string{"kubeconfig": content}
	for _, id := range tokens {
		want["jws-kubeconfig-"+id] = bootstrapsigner.Sign(content, id, "0123456789abcdef")
	}
	if !maps.Equal(cm.Data, want) {
		b.Errorf("it has %q, want %q", cm.Data, want)
	}
}

// TestSign: the signature is that of upstream's library.
func TestSign(t *testing.T) {
	got := bootstrapsigner.Sign("Hello from the other side. I must have called a thousand times.", "joshua", "my voice is my passcode")
	if want := "eyJhbGciOiJIUzI1NiIsImtpZCI6Impvc2h1YSJ9..VShe2taLd-YTrmWuRkcL_8QTNDHYxQIEBsAYYiIj1_8"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestSigner(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.wants("x", "aaaaaa")
		controllerstest.Add(b, b.api, token("bbbbbb"))
		controllerstest.Add(b, b.api, token("cccccc", func(s *corev1.Secret) { s.Data["usage-bootstrap-signing"] = []byte("false") }))
		controllerstest.Add(b, b.api, token("dddddd", func(s *corev1.Secret) { s.Namespace = "default" }))
		synctest.Wait()
		b.wants("x", "aaaaaa", "bbbbbb")
		if _, err := b.api.Others.Update(b.Context(), info, clusterInfo(map[string]string{"kubeconfig": "y"}), metav1.UpdateOptions{}); err != nil {
			b.Fatal(err)
		}
		synctest.Wait()
		b.wants("y", "aaaaaa", "bbbbbb")
		if err := b.api.Others.Delete(b.Context(), client.Target{Resource: secrets, Namespace: "kube-system", Name: "bootstrap-token-aaaaaa"}, metav1.DeleteOptions{}); err != nil {
			b.Fatal(err)
		}
		synctest.Wait()
		b.wants("y", "bbbbbb")
		b.api.Reset()
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if w := b.api.Writes(); len(w) > 0 {
			b.Errorf("it writes %v though nothing has changed", w)
		}
	}, clusterInfo(map[string]string{"kubeconfig": "x", "jws-kubeconfig-zzzzzz": "forged"}), token("aaaaaa"))
}

// TestNothingToSign: what is not there is not made.
func TestNothingToSign(t *testing.T) {
	inBubble(t, func(b *bench) {
		controllerstest.Add(b, b.api, clusterInfo(map[string]string{"other": "x"}))
		elsewhere := clusterInfo(map[string]string{"kubeconfig": "x"})
		elsewhere.Namespace = "default"
		controllerstest.Add(b, b.api, elsewhere)
		synctest.Wait()
		if w := b.api.Writes(); len(w) > 0 {
			b.Errorf("it writes %v", w)
		}
	}, token("aaaaaa"))
}

// TestChanges: a token that is to sign only now signs, and one that is not of the type of tokens never does; a change of
// anything but the data is no reason to write.
func TestChanges(t *testing.T) {
	opaque := token("eeeeee")
	opaque.Type = "Opaque"
	inBubble(t, func(b *bench) {
		b.wants("x")
		at := client.Target{Resource: secrets, Namespace: "kube-system", Name: "bootstrap-token-aaaaaa"}
		if _, err := b.api.Others.Update(b.Context(), at, token("aaaaaa"), metav1.UpdateOptions{}); err != nil {
			b.Fatal(err)
		}
		synctest.Wait()
		b.wants("x", "aaaaaa")
		b.api.Reset()
		patch := client.Patch{Type: types.MergePatchType, Data: []byte(`{"metadata":{"labels":{"a":"b"}}}`)}
		if _, err := b.api.Others.Patch(b.Context(), info, patch, metav1.PatchOptions{}); err != nil {
			b.Fatal(err)
		}
		synctest.Wait()
		if w := b.api.Writes(); len(w) > 0 {
			b.Errorf("it writes %v though the data is the same", w)
		}
	}, clusterInfo(map[string]string{"kubeconfig": "x"}), opaque, token("aaaaaa", func(s *corev1.Secret) { s.Data["usage-bootstrap-signing"] = []byte("false") }))
}

// TestFailures: a failed request to the server is made again, unless another's change was first, which is looked at anyway.
func TestFailures(t *testing.T) {
	group := configMaps.GroupResource()
	for _, test := range []struct {
		err    error
		tokens []string
	}{
		{errors.New("down"), []string{"aaaaaa"}},
		{apierrors.NewConflict(group, "cluster-info", errors.New("a")), nil},
		{apierrors.NewNotFound(group, "cluster-info"), nil},
	} {
		inBubble(t, func(b *bench) {
			b.api.Inject(faults.Fault{Err: test.err})
			controllerstest.Add(b, b.api, token("aaaaaa"))
			synctest.Wait()
			time.Sleep(time.Second)
			synctest.Wait()
			b.wants("x", test.tokens...)
		}, clusterInfo(map[string]string{"kubeconfig": "x"}))
	}
}

// What nodes learn of a cluster is signed with the token that they are given.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	api, err := controllerstest.New(controllerstest.Options{
		Objects: []informer.Object{token("aaaaaa"), clusterInfo(map[string]string{"kubeconfig": "x"})},
		Before: func(r faults.Request) error {
			fmt.Println(r, r.Object.(*corev1.ConfigMap).Data["jws-kubeconfig-aaaaaa"][:10])
			stop()
			return nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	in := bootstrapsigner.Sources{
		ConfigMaps: informer.New(controllerstest.Source[*corev1.ConfigMap](api, configMaps), informer.Options{}),
		Secrets:    informer.New(controllerstest.Source[*corev1.Secret](api, secrets), informer.Options{}),
	}
	loop := controllers.NewLoop(bootstrapsigner.New(in, api), controllers.Options{})
	fmt.Println(lifecycle.Group(api, in.ConfigMaps, in.Secrets, loop).Run(ctx))
	// Output:
	// update configmaps kube-public/cluster-info eyJhbGciOi
	// <nil>
}
