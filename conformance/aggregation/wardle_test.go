package aggregation_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/sample-apiserver/pkg/cmd/server"

	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/cluster/aggregation"
	"github.com/keelson-dev/keelson/internal/etcdtest"
	"github.com/keelson-dev/keelson/internal/testcluster"
	"github.com/keelson-dev/keelson/pki"
)

func authority(t *testing.T, name string) *pki.Authority {
	t.Helper()
	a, err := pki.New(name)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func issue(t *testing.T, a *pki.Authority, s pki.Subject) pki.Pair {
	t.Helper()
	pair, err := a.Issue(s, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// run runs upstream's sample server until the test ends, and returns its address.
func run(t *testing.T, kubeconfig string, pair pki.Pair) string {
	t.Helper()
	dir := t.TempDir()
	certificate, key := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	for path, data := range map[string][]byte{certificate: pair.Certificate, key: pair.Key} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().String()
	_, port, _ := net.SplitHostPort(at)
	_ = l.Close()
	etcd := etcdtest.Start(t, etcdtest.Options{})
	ctx, cancel := context.WithCancel(context.Background())
	cmd := server.NewCommandStartWardleServer(ctx, server.NewWardleServerOptions(io.Discard, io.Discard), false)
	cmd.SetArgs([]string{
		"--secure-port=" + port, "--bind-address=127.0.0.1", "--tls-cert-file=" + certificate, "--tls-private-key-file=" + key,
		"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		"--etcd-servers=" + strings.Join(etcd.Endpoints(), ","),
		"--enable-priority-and-fairness=false",
		"--disable-admission-plugins=MutatingAdmissionPolicy,MutatingAdmissionWebhook,ValidatingAdmissionPolicy,ValidatingAdmissionWebhook",
	})
	done := make(chan error, 1)
	go func() { done <- cmd.ExecuteContext(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the sample server: %v", err)
		}
	})
	return at
}

// TestWardle: upstream's sample server believes keelson's front-proxy certificate, reads from keelson whom to trust, asks
// keelson who may do what, and its objects are served through keelson.
func TestWardle(t *testing.T) {
	frontCA, serverCA := authority(t, "front-proxy-ca"), authority(t, "wardle")
	front, err := issue(t, frontCA, pki.Subject{Name: "front-proxy-client"}).TLS()
	if err != nil {
		t.Fatal(err)
	}
	var address string
	kubeconfig, c := testcluster.Serve(t, cluster.Options{
		Server: cluster.Server{ClientCA: authority(t, "users").PEM(), FrontProxy: &cluster.FrontProxy{CA: frontCA.PEM()}},
		Extensions: []cluster.Extension{aggregation.Extension(aggregation.Options{
			Certificate: new(tls.Certificate(front)),
			Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, network, address)
			},
		})},
	})
	address = run(t, kubeconfig, issue(t, serverCA, pki.Subject{Name: "wardle", Hosts: []string{"api.wardle.svc"}}))
	ctx := t.Context()
	cs, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	register(t, c, cs, serverCA.PEM())

	dyn, err := dynamic.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	gvr := schema.GroupVersionResource{Group: "wardle.example.com", Version: "v1alpha1", Resource: "flunders"}
	in := dyn.Resource(gvr).Namespace("default")
	w, err := in.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	flunder := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "wardle.example.com/v1alpha1", "kind": "Flunder", "metadata": map[string]any{"name": "one"},
	}}
	if _, err := in.Create(ctx, flunder, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Patch(ctx, "one", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{}); err != nil {
		t.Error(err)
	}
	if err := in.Delete(ctx, "one", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	for _, want := range []watch.EventType{watch.Added, watch.Modified, watch.Deleted} {
		if e := <-w.ResultChan(); e.Type != want {
			t.Errorf("watched %v, want %s", e, want)
		}
	}
	ann, err := dynamic.NewForConfig(c.ConfigFor(cluster.User("ann")))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ann.Resource(gvr).Namespace("default").List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a user without rights: %v", err)
	}
	var lists []*metav1.APIResourceList
	for { // until the new group has been read
		if _, lists, err = cs.Discovery().ServerGroupsAndResources(); err == nil {
			break
		}
		select {
		case <-ctx.Done():
			t.Fatal(err)
		case <-time.After(100 * time.Millisecond):
		}
	}
	found := ""
	for _, l := range lists {
		for _, r := range l.APIResources {
			if l.GroupVersion == gvr.GroupVersion().String() {
				found += fmt.Sprint(r.Name, " ", r.Kind, " ", r.Namespaced, "; ")
			}
		}
	}
	if want := "fischers Fischer false; flunders Flunder true; "; found != want {
		t.Errorf("discovery has %q, want %q", found, want)
	}
	documents, err := cs.Discovery().OpenAPIV3().Paths()
	if err != nil || documents["apis/wardle.example.com/v1alpha1"] == nil {
		t.Fatalf("OpenAPI: %v, %v", documents, err)
	}
	if data, err := documents["apis/wardle.example.com/v1alpha1"].Schema(runtime.ContentTypeJSON); err != nil || !strings.Contains(string(data), "FlunderSpec") {
		t.Errorf("the document: %d bytes, %v", len(data), err)
	}
	v2, err := cs.Discovery().OpenAPISchema()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for _, p := range v2.GetPaths().GetPath() {
		all[p.GetName()] = true
	}
	for _, d := range v2.GetDefinitions().GetAdditionalProperties() {
		all[d.GetName()] = true
	}
	for _, want := range []string{
		"/apis/wardle.example.com/v1alpha1/namespaces/{namespace}/flunders/{name}", "io.k8s.sample-apiserver.pkg.apis.wardle.v1alpha1.FlunderSpec",
		"/api/v1/namespaces/{namespace}/pods/{name}", "io.k8s.api.core.v1.PodSpec",
	} {
		if !all[want] {
			t.Errorf("OpenAPI v2 lacks %s", want)
		}
	}
}

// register makes the cluster forward the group's requests, and waits until it is available.
func register(t *testing.T, c *cluster.Cluster, cs kubernetes.Interface, roots []byte) {
	t.Helper()
	ctx := t.Context()
	if _, err := cs.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "wardle"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := cs.CoreV1().Services("wardle").Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "api"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 443}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := cs.DiscoveryV1().EndpointSlices("wardle").Create(ctx, &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: "api", Labels: map[string]string{discoveryv1.LabelServiceName: "api"}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.1.2.3"}}},
		Ports: []discoveryv1.EndpointPort{{Name: new(""), Port: new(int32(443))}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	dyn, err := dynamic.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&apiregistrationv1.APIService{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apiregistration.k8s.io/v1", Kind: "APIService"},
		ObjectMeta: metav1.ObjectMeta{Name: "v1alpha1.wardle.example.com"},
		Spec: apiregistrationv1.APIServiceSpec{
			Group: "wardle.example.com", Version: "v1alpha1", GroupPriorityMinimum: 2000, VersionPriority: 10, CABundle: roots,
			Service: &apiregistrationv1.ServiceReference{Namespace: "wardle", Name: "api"},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	in := dyn.Resource(apiregistrationv1.SchemeGroupVersion.WithResource("apiservices"))
	u, err := in.Create(ctx, &unstructured.Unstructured{Object: content}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := in.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + u.GetName(), ResourceVersion: u.GetResourceVersion()})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		text, err := e.Object.(*unstructured.Unstructured).MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), `"reason":"Passed"`) {
			return
		}
	}
}
