package clustertrustbundlepublisher_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/clustertrustbundlepublisher"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/lifecycle"
	"github.com/keelson-dev/keelson/pki"
)

var bundles = certificatesv1.SchemeGroupVersion.WithResource("clustertrustbundles")

type bundle = certificatesv1.ClusterTrustBundle

// authority returns the PEM of a new authority.
func authority() string {
	a, err := pki.New("kubernetes")
	if err != nil {
		panic(err)
	}
	return string(a.PEM())
}

func of(signer, name, data string) *bundle {
	return &bundle{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: certificatesv1.ClusterTrustBundleSpec{SignerName: signer, TrustBundle: data}}
}

// bench is a running controller with an API, in a bubble.
type bench struct {
	*testing.T
	api  *controllerstest.API
	data string
	name string
}

func inBubble(t *testing.T, test func(*bench), objects ...informer.Object) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t, api: controllerstest.Start(t, controllerstest.Options{Objects: objects}), data: authority()}
		b.name = clustertrustbundlepublisher.BundleName([]byte(b.data))
		in := clustertrustbundlepublisher.Sources{Bundles: informer.New(controllerstest.Source[*bundle](b.api, bundles),
			informer.Options{DetectMutations: func(err error) { t.Error(err) }})}
		controllerstest.Go(t, in.Bundles, controllers.NewLoop(clustertrustbundlepublisher.New(in, b.api, []byte(b.data)), controllers.Options{}))
		synctest.Wait()
		test(b)
	})
}

// wants compares all bundles with those that should be there.
func (b *bench) wants(more ...*bundle) {
	b.Helper()
	list, err := client.As[*certificatesv1.ClusterTrustBundleList](b.api.Others.List(b.Context(), client.Target{Resource: bundles}, metav1.ListOptions{}))
	if err != nil {
		b.Fatal(err)
	}
	got, want := map[string]certificatesv1.ClusterTrustBundleSpec{}, map[string]certificatesv1.ClusterTrustBundleSpec{}
	for _, item := range list.Items {
		got[item.Name] = item.Spec
	}
	for _, m := range append(more, of("kubernetes.io/kube-apiserver-serving", b.name, b.data)) {
		want[m.Name] = m.Spec
	}
	if !maps.Equal(got, want) {
		b.Errorf("there are %q, want %q", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
}

func TestPublisher(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.wants()
		at := client.Target{Resource: bundles, Name: b.name}
		if err := b.api.Others.Delete(b.Context(), at, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		b.wants()
		forged, err := client.As[*bundle](b.api.Others.Get(b.Context(), at))
		if err != nil {
			t.Fatal(err)
		}
		forged = forged.DeepCopy()
		forged.Spec.TrustBundle = authority()
		if _, err := b.api.Others.Update(b.Context(), at, forged, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		b.wants()
		controllerstest.Add(b, b.api, of("kubernetes.io/kube-apiserver-serving", "kubernetes.io:kube-apiserver-serving:more", authority()))
		synctest.Wait()
		b.wants()
		other := controllerstest.Add(b, b.api, of("example.com/ca", "example.com:ca:more", authority()))
		synctest.Wait()
		b.wants(other)
	})
}

// TestOld: the bundle of an authority that the server had before is deleted.
func TestOld(t *testing.T) {
	old := authority()
	inBubble(t, func(b *bench) { b.wants() },
		of("kubernetes.io/kube-apiserver-serving", clustertrustbundlepublisher.BundleName([]byte(old)), old))
}

// TestFailures: failed requests to the server are made again.
func TestFailures(t *testing.T) {
	for _, verb := range []string{faults.Create, faults.Update, faults.Delete} {
		inBubble(t, func(b *bench) {
			b.api.Inject(faults.Fault{Verb: verb, Err: errors.New("down")})
			switch at := (client.Target{Resource: bundles, Name: b.name}); verb {
			case faults.Create:
				if err := b.api.Others.Delete(b.Context(), at, metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
			case faults.Update:
				forged, err := client.As[*bundle](b.api.Others.Get(b.Context(), at))
				if err != nil {
					t.Fatal(err)
				}
				forged = forged.DeepCopy()
				forged.Spec.TrustBundle = authority()
				if _, err := b.api.Others.Update(b.Context(), at, forged, metav1.UpdateOptions{}); err != nil {
					t.Fatal(err)
				}
			case faults.Delete:
				controllerstest.Add(b, b.api, of("kubernetes.io/kube-apiserver-serving", "kubernetes.io:kube-apiserver-serving:more", authority()))
			}
			time.Sleep(time.Second)
			synctest.Wait()
			b.wants()
		})
	}
}

func TestBundleName(t *testing.T) {
	if got, want := clustertrustbundlepublisher.BundleName([]byte("x")), "kubernetes.io:kube-apiserver-serving:2d711642b726b04401627ca9"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestReconcile: nothing is done to what is as it should be, nor to bundles of other signers; one that is gone by the time
// that it is to be deleted is no failure.
func TestReconcile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, data := controllerstest.Start(t, controllerstest.Options{}), authority()
		in := clustertrustbundlepublisher.Sources{Bundles: informer.New(controllerstest.Source[*bundle](api, bundles), informer.Options{})}
		c := clustertrustbundlepublisher.New(in, api, []byte(data))
		controllerstest.Add(t, api, of("kubernetes.io/kube-apiserver-serving", clustertrustbundlepublisher.BundleName([]byte(data)), data))
		controllerstest.Add(t, api, of("example.com/ca", "example.com:ca:more", authority()))
		controllerstest.Go(t, in.Bundles)
		reconcile := func(want string) {
			t.Helper()
			synctest.Wait()
			api.Reset()
			if _, err := c.Reconcile(t.Context(), controllers.Key{}); err != nil || fmt.Sprint(api.Writes()) != want {
				t.Errorf("it writes %v, want %s; %v", api.Writes(), want, err)
			}
		}
		reconcile("[]")
		const more = "kubernetes.io:kube-apiserver-serving:more"
		controllerstest.Add(t, api, of("kubernetes.io/kube-apiserver-serving", more, authority()))
		api.Inject(faults.Fault{Verb: faults.Delete, Err: apierrors.NewNotFound(bundles.GroupResource(), more)})
		reconcile("[delete clustertrustbundles " + more + "]")
		reconcile("[delete clustertrustbundles " + more + "]")
		reconcile("[]")
	})
}

// A new cluster publishes its authority.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	api, err := controllerstest.New(controllerstest.Options{Before: func(r faults.Request) error {
		fmt.Println(r.Verb, r.Object.(*bundle).Spec.SignerName)
		stop()
		return nil
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	in := clustertrustbundlepublisher.Sources{Bundles: informer.New(controllerstest.Source[*bundle](api, bundles), informer.Options{})}
	loop := controllers.NewLoop(clustertrustbundlepublisher.New(in, api, []byte(authority())), controllers.Options{})
	fmt.Println(lifecycle.Group(api, in.Bundles, loop).Run(ctx))
	// Output:
	// create kubernetes.io/kube-apiserver-serving
	// <nil>
}
