package remote_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/component"
	"github.com/keelson-dev/keelson/component/controllermanager"
	"github.com/keelson-dev/keelson/component/kubescheduler"
	"github.com/keelson-dev/keelson/component/remote"
	"github.com/keelson-dev/keelson/lifecycle"
)

// bare starts an API server with a node and nothing else, in a bubble.
func bare(t *testing.T) (*cluster.Cluster, kubernetes.Interface) {
	t.Helper()
	c, err := cluster.Start(t.Context(), cluster.Options{Components: []cluster.Component{}, Nodes: cluster.Nodes{Count: 1}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	api, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	return c, api
}

// start runs components until stop is called, which returns their error.
func start(t *testing.T, config *rest.Config, components []component.Component, o remote.Options) (stop func() error) {
	t.Helper()
	m, err := remote.New(config, scheme.Scheme, components, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	var once func() error
	stop = func() error { return once() }
	once = func() error {
		cancel()
		err := <-ended
		once = func() error { return err }
		return err
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	return stop
}

func deployment(name string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "nginx"}}},
		}},
	}
}

func everything() []component.Component {
	return append(controllermanager.Components(), kubescheduler.Component(kubescheduler.Options{}))
}

// TestAll: all components work from outside as in the cluster: a deployment is rolled out, a namespace is deleted with
// its contents, and a replica set with its deployment.
func TestAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, api := bare(t)
		start(t, c.Config(), everything(), remote.Options{RootCA: []byte("root")})
		time.Sleep(10 * time.Second)
		if _, err := api.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		for _, namespace := range []string{"default", "shop"} {
			if _, err := api.AppsV1().Deployments(namespace).Create(t.Context(), deployment("web", 3), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		for _, namespace := range []string{"default", "shop"} {
			d, err := api.AppsV1().Deployments(namespace).Get(t.Context(), "web", metav1.GetOptions{})
			if err != nil || d.Status.AvailableReplicas != 3 {
				t.Errorf("%s: %+v, %v", namespace, d.Status, err)
			}
		}
		if m, err := api.CoreV1().ConfigMaps("shop").Get(t.Context(), "kube-root-ca.crt", metav1.GetOptions{}); err != nil || m.Data["ca.crt"] != "root" {
			t.Errorf("root CA %v, %v", m.Data, err)
		}
		err := errors.Join(api.AppsV1().Deployments("default").Delete(t.Context(), "web", metav1.DeleteOptions{}),
			api.CoreV1().Namespaces().Delete(t.Context(), "shop", metav1.DeleteOptions{}))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		pods, err := api.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
		if err != nil || len(pods.Items) != 0 {
			t.Errorf("%d pods are left, %v", len(pods.Items), err)
		}
		sets, err := api.AppsV1().ReplicaSets("").List(t.Context(), metav1.ListOptions{})
		if err != nil || len(sets.Items) != 0 {
			t.Errorf("%d replica sets are left, %v", len(sets.Items), err)
		}
		if _, err := api.CoreV1().Namespaces().Get(t.Context(), "shop", metav1.GetOptions{}); err == nil {
			t.Error("the namespace is there")
		}
	})
}

// TestLease: one of two processes leads; when it ends or is cut off, the other takes over.
func TestLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, api := bare(t)
		lease := types.NamespacedName{Namespace: "kube-system", Name: "manager"}
		leader := func(want string) {
			t.Helper()
			l, err := api.CoordinationV1().Leases(lease.Namespace).Get(t.Context(), lease.Name, metav1.GetOptions{})
			if err != nil || *l.Spec.HolderIdentity != want {
				t.Fatalf("the leader is %+v, %v; want %s", l.Spec, err, want)
			}
		}
		rolled := func(name string) {
			t.Helper()
			if _, err := api.AppsV1().Deployments("default").Create(t.Context(), deployment(name, 1), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Second)
			d, err := api.AppsV1().Deployments("default").Get(t.Context(), name, metav1.GetOptions{})
			if err != nil || d.Status.AvailableReplicas != 1 {
				t.Errorf("%s: %+v, %v", name, d.Status, err)
			}
		}
		first := start(t, c.Config(), everything(), remote.Options{Lease: &remote.Lease{Name: lease, Identity: "first"}})
		time.Sleep(10 * time.Second)
		start(t, c.Config(), everything(), remote.Options{Lease: &remote.Lease{Name: lease, Identity: "second"}})
		time.Sleep(time.Minute)
		leader("first")
		rolled("one")
		if err := first(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		leader("second")
		rolled("two")
	})
}

// failing answers some requests with an error.
type failing struct {
	http.RoundTripper
	path string
}

var errCut = errors.New("the cable is cut")

func (f failing) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasPrefix(r.URL.Path, f.path) {
		return nil, errCut
	}
	return f.RoundTripper.RoundTrip(r)
}

// TestEnds: failures to run are reported with their reasons.
func TestEnds(t *testing.T) {
	for _, all := range [][]component.Component{nil, {{Name: "x"}}} {
		if _, err := remote.New(&rest.Config{}, scheme.Scheme, all, remote.Options{}); !errors.Is(err, component.ErrInvalid) {
			t.Errorf("a manager of %v: %v", all, err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		c, _ := bare(t)
		cut := c.Config()
		cut.Transport = failing{cut.Transport, "/api"}
		broken := errors.New("broken")
		unused := func(*component.Parts) (lifecycle.Runnable, error) { return nil, errors.New("made") }
		for name, test := range map[string]struct {
			config *rest.Config
			make   func(*component.Parts) (lifecycle.Runnable, error)
			o      remote.Options
			want   error
		}{
			"no connection to the server": {cut, unused, remote.Options{}, errCut},
			"a resource that is not served": {c.Config(), func(p *component.Parts) (lifecycle.Runnable, error) {
				component.Informer[*schedulingv1.PriorityClass](p.Informers, schedulingv1.SchemeGroupVersion.WithResource("priorityklasses"))
				return nil, p.Informers.Err()
			}, remote.Options{}, remote.ErrNotServed},
			"a component that fails": {c.Config(), func(*component.Parts) (lifecycle.Runnable, error) {
				return lifecycle.Func(func(context.Context) error { return broken }), nil
			}, remote.Options{}, broken},
			"no config for an identity": {c.Config(), unused, remote.Options{As: func(*authn.Identity) (*rest.Config, error) { return nil, broken }}, broken},
		} {
			m, err := remote.New(test.config, scheme.Scheme, []component.Component{{Name: "x", Identity: cluster.Admin(), New: test.make}}, test.o)
			if err != nil {
				t.Fatal(err)
			}
			if err := m.Run(t.Context()); !errors.Is(err, test.want) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// TestAs: each component acts under its own identity.
func TestAs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, api := bare(t)
		start(t, c.Config(), everything(), remote.Options{As: func(id *authn.Identity) (*rest.Config, error) { return c.ConfigFor(id), nil }})
		time.Sleep(10 * time.Second)
		if _, err := api.AppsV1().Deployments("default").Create(t.Context(), deployment("web", 1), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		d, err := api.AppsV1().Deployments("default").Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil || d.Status.AvailableReplicas != 1 {
			t.Errorf("%+v, %v", d.Status, err)
		}
		for _, m := range d.ManagedFields {
			if m.Subresource == "status" && m.Manager != "kube-controller-manager" {
				t.Errorf("the status was written by %s", m.Manager)
			}
		}
	})
}
