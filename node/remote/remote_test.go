package remote_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/cri/simulated"
	"github.com/keelson-dev/keelson/kubelet"
	"github.com/keelson-dev/keelson/lifecycle"
	"github.com/keelson-dev/keelson/node"
	"github.com/keelson-dev/keelson/node/remote"
)

// joined starts a cluster without nodes of its own and makes the parts of the node n, which are kept up to date.
func joined(t *testing.T) (node.Parts, kubernetes.Interface) {
	t.Helper()
	c, err := cluster.Start(t.Context(), cluster.Options{})
	if err != nil {
		t.Fatal(err)
	}
	parts, run, err := remote.New(c.ConfigFor(authn.NodeIdentity("n")), scheme.Scheme, "n", remote.Options{})
	if err != nil {
		t.Fatal(err)
	}
	during(t, run)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	api, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	return parts, api
}

// during runs something until the test ends, before the cleanups that were there before.
func during(t *testing.T, r lifecycle.Runnable) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestKubelet: a kubelet on the parts registers its node, runs the pods of the node, and tells how they fare.
func TestKubelet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parts, api := joined(t)
		if err := parts.Check(); err != nil {
			t.Fatal(err)
		}
		runtime := simulated.New(simulated.Options{})
		t.Cleanup(func() { runtime.Close() })
		k, err := kubelet.New(kubelet.Sources{Pods: parts.Pods, Nodes: parts.Node}, parts.Client, runtime, parts.Recorder, kubelet.Options{NodeName: "n"})
		if err != nil {
			t.Fatal(err)
		}
		during(t, k)
		synctest.Wait()
		for _, on := range []string{"n", "other"} {
			if _, err := api.CoreV1().Pods("default").Create(t.Context(), &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: "on-" + on},
				Spec:       corev1.PodSpec{NodeName: on, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
			}, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := api.CoreV1().Services("default").Create(t.Context(), &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		pod, err := api.CoreV1().Pods("default").Get(t.Context(), "on-n", metav1.GetOptions{})
		if err != nil || pod.Status.Phase != corev1.PodRunning {
			t.Errorf("the pod is %s, %v", pod.Status.Phase, err)
		}
		if _, ok := parts.Pods.Get("default", "on-other"); ok {
			t.Error("the node knows another's pod")
		}
		if _, ok := parts.Node.Get("", "n"); !ok {
			t.Error("the node does not know itself")
		}
		if _, ok := parts.Services.Get("default", "s"); !ok {
			t.Error("the node does not know the service")
		}
	})
}

// TestWatches: a node sees what a pod of its refers to, each by its name, and nothing else.
func TestWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parts, api := joined(t)
		for _, name := range []string{"mine", "another"} {
			if _, err := api.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		source, err := parts.Watches.ConfigMap("default", "mine")
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := source.List(t.Context()); err == nil {
			t.Error("a node reads the config map of nobody's pod")
		}
		if _, err := api.CoreV1().Pods("default").Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "p"},
			Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "c", Image: "i", EnvFrom: []corev1.EnvFromSource{{
				ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "mine"}},
			}}}}},
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		list, _, err := source.List(t.Context())
		if err != nil || len(list) != 1 || list[0].Name != "mine" {
			t.Errorf("the node sees %v, %v", list, err)
		}
	})
}

// TestClients: who a client of the node's server is, and what it may do, is what the API server says.
func TestClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parts, api := joined(t)
		made, err := api.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/pods", nil)
		r.Header.Set("Authorization", "Bearer "+made.Status.Token)
		id, err := parts.Authenticator.Authenticate(r)
		if err != nil || id == nil || id.Name != "system:serviceaccount:default:default" {
			t.Errorf("it is %v, %v", id, err)
		}
		for name, who := range map[string]struct {
			id   *authn.Identity
			want bool
		}{"an administrator": {cluster.Admin(), true}, "anybody": {&authn.Identity{Name: "ann"}, false}} {
			got, err := parts.Authorizer.Authorize(t.Context(), authz.Attributes{
				User: who.id, Verb: "get", Resource: "nodes", Subresource: "proxy", Version: "v1", Name: "n", ResourceRequest: true,
			})
			if allowed := got.Verdict == authz.Allow; err != nil || allowed != who.want {
				t.Errorf("%s: %+v, %v", name, got, err)
			}
		}
	})
}

func TestBadConfig(t *testing.T) {
	if _, _, err := remote.New(&rest.Config{Host: "://"}, scheme.Scheme, "n", remote.Options{}); err == nil {
		t.Error("a cluster that is nowhere")
	}
	for name, p := range map[string]node.Parts{"nobody": {}, "no way to the cluster": {Name: "n"}} {
		if err := p.Check(); !errors.Is(err, node.ErrParts) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
