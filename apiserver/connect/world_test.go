package connect_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/apiserver/connect"
	"github.com/keelson-dev/keelson/apiserver/openapi"
	"github.com/keelson-dev/keelson/apiserver/serving"
	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/token"
	webhookauthn "github.com/keelson-dev/keelson/authn/webhook"
	"github.com/keelson-dev/keelson/authn/x509"
	"github.com/keelson-dev/keelson/authz"
	webhookauthz "github.com/keelson-dev/keelson/authz/webhook"
	"github.com/keelson-dev/keelson/client"
	clientrest "github.com/keelson-dev/keelson/client/rest"
	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/internal/kubectl"
	"github.com/keelson-dev/keelson/kubelet/server"
	"github.com/keelson-dev/keelson/pki"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/authentication"
	"github.com/keelson-dev/keelson/registry/authorization"
	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/storage/memory"
)

const hour = time.Hour

// world is an API server and a kubelet, each behind TLS, and what a kubectl needs to speak to them.
type world struct {
	*host
	registry *registry.Registry
	ca       *pki.Authority
	address  string // of the API server
	kubelet  string
	drain    *apiserver.Drain
	admitted *recorded

	stopKubelet func()

	mu   sync.Mutex
	pods map[string]*corev1.Pod
}

// recorded are the connections that were admitted.
type recorded struct {
	mu  sync.Mutex
	all []string
}

func (r *recorded) add(s string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, s)
}

func (r *recorded) list() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.all)
}

func (w *world) Pods() []*corev1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []*corev1.Pod
	for _, pod := range w.pods {
		all = append(all, pod)
	}
	return all
}

func (w *world) Pod(namespace, name string) (*corev1.Pod, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	pod, ok := w.pods[namespace+"/"+name]
	return pod, ok
}

// start starts everything. It ends with the test, which fails if something does not end.
func start(t testing.TB) *world {
	t.Helper()
	w := &world{host: newHost(t), pods: map[string]*corev1.Pod{}, drain: apiserver.NewDrain(), admitted: &recorded{}}
	var err error
	if w.ca, err = pki.New("test"); err != nil {
		t.Fatal(err)
	}
	w.startServer(t)
	w.startKubelet(t)
	w.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
	w.create(t, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node"},
		Status: corev1.NodeStatus{
			Addresses:       []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "no.such.host"}, {Type: corev1.NodeInternalIP, Address: "127.0.0.1"}},
			DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: w.kubeletPort(t)}},
		},
	})
	return w
}

func (w *world) kubeletPort(t testing.TB) int32 {
	t.Helper()
	_, port, err := net.SplitHostPort(w.kubelet)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseInt(port, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	return int32(n)
}

// run runs something until the test ends, or it is stopped.
func run(t testing.TB, f func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Error("it does not end")
		}
	})
	t.Cleanup(stop)
	return stop
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func (w *world) certificate(t testing.TB, s pki.Subject) tls.Certificate {
	t.Helper()
	pair, err := w.ca.Issue(s, hour)
	if err != nil {
		t.Fatal(err)
	}
	c, err := pair.TLS()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (w *world) startKubelet(t testing.TB) {
	t.Helper()
	logDir := t.TempDir()
	if err := os.WriteFile(filepath.Join(logDir, "syslog"), []byte("a line\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	api, err := clientrest.New(w.config(t, "system:node:node", authn.GroupNodes), scheme.Scheme)
	if err != nil {
		t.Fatal(err)
	}
	whose, may := reviewers(api)
	s := server.New(w, w.host, server.Options{
		NodeName: "node", LogDir: logDir,
		Authenticator: authn.Union(x509.New(x509.Static{Roots: w.ca.Pool()}), token.New(webhookauthn.New(whose, webhookauthn.Options{}))),
		Authorizer:    webhookauthz.New(may, webhookauthz.Options{}),
	})
	l := listen(t)
	w.kubelet = l.Addr().String()
	certificate := w.certificate(t, pki.Subject{Name: "system:node:node", Hosts: []string{"127.0.0.1"}})
	w.stopKubelet = run(t, func(ctx context.Context) error {
		return s.Run(ctx, l, func() (*tls.Certificate, error) { return &certificate, nil })
	})
}

// reviewers ask the API server who somebody is and what they may.
func reviewers(c client.Creator) (webhookauthn.Reviewer, webhookauthz.Reviewer) {
	tokens := client.Target{Resource: authenticationv1.SchemeGroupVersion.WithResource("tokenreviews")}
	accesses := client.Target{Resource: authorizationv1.SchemeGroupVersion.WithResource("subjectaccessreviews")}
	return webhookauthn.ReviewerFunc(func(ctx context.Context, r *authenticationv1.TokenReview) (*authenticationv1.TokenReview, error) {
			return client.As[*authenticationv1.TokenReview](c.Create(ctx, tokens, r, metav1.CreateOptions{}))
		}), webhookauthz.ReviewerFunc(func(ctx context.Context, r *authorizationv1.SubjectAccessReview) (*authorizationv1.SubjectAccessReview, error) {
			return client.As[*authorizationv1.SubjectAccessReview](c.Create(ctx, accesses, r, metav1.CreateOptions{}))
		})
}

func (w *world) startServer(t testing.TB) {
	t.Helper()
	store := memory.New(memory.Options{})
	t.Cleanup(func() { _ = store.Close() })
	known := authn.Union(x509.New(x509.Static{Roots: w.ca.Pool()}), token.New(token.Static(map[string]*authn.Identity{
		"the-token": {Name: "prober"}, "another-token": {Name: "nobody"},
	})))
	kinds := slices.Concat(core.Kinds(core.Options{}), authentication.Kinds(known, authentication.Options{}), authorization.Kinds(authz.Func(allow), nil))
	var err error
	if w.registry, err = registry.New(store, kinds, registry.Options{}); err != nil {
		t.Fatal(err)
	}
	run(t, w.registry.Run)
	if err := w.registry.WaitSynced(t.Context()); err != nil {
		t.Fatal(err)
	}
	client := w.certificate(t, pki.Subject{Name: "kube-apiserver-kubelet-client"})
	connector := connect.New(connect.Options{TLS: &tls.Config{Certificates: []tls.Certificate{client}, RootCAs: w.ca.Pool(), MinVersion: tls.VersionTLS12}})
	t.Cleanup(connector.Close)
	handler := apiserver.New(w.registry, apiserver.Options{
		Authenticator: authn.WithGroup(known, authn.GroupAuthenticated),
		Authorizer:    authz.Func(allow), Connector: connector, Paths: openapi.New(kinds, openapi.Options{}).Paths(),
		Admission: admission.Chain{admission.ValidatorFunc("Recorder", func(_ context.Context, r *admission.Request) error {
			w.admitted.add(fmt.Sprintf("%s %s %s/%s %s", r.Operation, r.Kind.Kind, r.Resource.Resource, r.Subresource, r.Name))
			if r.Name == "forbidden" {
				return admission.Forbidden(r, "not this one")
			}
			return nil
		}, admission.Connect)},
	})
	l := listen(t)
	w.address = l.Addr().String()
	s := serving.New(l, w.certificate(t, pki.Subject{Name: "apiserver", Hosts: []string{"127.0.0.1"}}), w.drain.Handler(handler), serving.Options{Drain: w.drain.EndStreams})
	run(t, s.Run)
}

// allow lets masters do everything, and "reader" read, to which belongs the GET of exec; the kubelet
// asks, the API server may everything on nodes, and "prober" their health.
func allow(_ context.Context, a authz.Attributes) (authz.Decision, error) {
	switch {
	case slices.Contains(a.User.Groups, authn.GroupMasters),
		a.User.Name == "kube-apiserver-kubelet-client" && a.Resource == "nodes",
		a.User.Name == "prober" && a.Resource == "nodes" && a.Subresource == "healthz",
		slices.Contains(a.User.Groups, authn.GroupNodes) && a.Verb == "create" && strings.HasSuffix(a.Resource, "reviews"),
		a.User.Name == "reader" && (!a.ResourceRequest || a.Verb == "get" || a.Verb == "list"):
		return authz.Decision{Verdict: authz.Allow}, nil
	}
	return authz.Decision{}, nil
}

func (w *world) create(t testing.TB, obj registry.Object) {
	t.Helper()
	plural := map[string]string{"Namespace": "namespaces", "Node": "nodes", "Pod": "pods", "Service": "services", "Endpoints": "endpoints"}[strings.TrimPrefix(fmt.Sprintf("%T", obj), "*v1.")]
	res, ok := w.registry.Resource(schema.GroupResource{Resource: plural})
	if !ok {
		t.Fatalf("no resource of %T", obj)
	}
	stored := obj.DeepCopyObject().(registry.Object)
	if res.Rules.Default != nil {
		res.Rules.Default(stored)
	}
	item, err := res.Create(t.Context(), stored, registry.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	obj.SetUID(item.Object.GetUID())
}

// setStatus makes the kubelet and the API server know a pod's status.
func (w *world) setStatus(t testing.TB, pod *corev1.Pod) {
	t.Helper()
	w.mu.Lock()
	w.pods[pod.Namespace+"/"+pod.Name] = pod
	w.mu.Unlock()
	err := w.client(t).Put().AbsPath("/api/v1/namespaces", pod.Namespace, "pods", pod.Name, "status").Body(pod).Do(t.Context()).Error()
	if err != nil {
		t.Fatal(err)
	}
}

// client is the administrator's.
func (w *world) client(t testing.TB) *rest.RESTClient {
	t.Helper()
	c, err := rest.UnversionedRESTClientFor(w.config(t, "admin", authn.GroupMasters))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (w *world) config(t testing.TB, name string, groups ...string) *rest.Config {
	t.Helper()
	pair, err := w.ca.Issue(pki.Subject{Name: name, Groups: groups}, hour)
	if err != nil {
		t.Fatal(err)
	}
	return &rest.Config{
		Host: "https://" + w.address, QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAData: w.ca.PEM(), CertData: pair.Certificate, KeyData: pair.Key},
		ContentConfig:   rest.ContentConfig{GroupVersion: &corev1.SchemeGroupVersion, NegotiatedSerializer: codecs()},
	}
}

// pod returns a pod with these containers, all running.
func (w *world) pod(t testing.TB, name string, containers ...string) (*corev1.Pod, []*cri.ContainerStatus) {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec:       corev1.PodSpec{NodeName: "node"}, Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	for _, c := range containers {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: c, Image: "image", Stdin: true, TTY: strings.HasPrefix(c, "tty")})
	}
	w.create(t, pod)
	var all []*cri.ContainerStatus
	for _, c := range containers {
		one := w.add(pod, c, cri.ContainerRunning)
		all = append(all, one)
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c, ContainerID: "host://" + one.ID, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}},
		})
	}
	w.setStatus(t, pod)
	return pod, all
}

// built is the kubectl, built once.
var built = sync.OnceValues(func() (string, error) { return kubectl.Build(context.Background()) })

// kubectl returns a kubectl of a user.
func (w *world) kubectl(t testing.TB, user string, groups ...string) kubectl.Kubectl {
	t.Helper()
	path, err := built()
	if err != nil {
		t.Fatal(err)
	}
	config := w.config(t, user, groups...)
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	kubeconfig := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c",
"clusters":[{"name":"c","cluster":{"server":%q,"certificate-authority":%q}}],
"users":[{"name":"c","user":{"client-certificate":%q,"client-key":%q}}],
"contexts":[{"name":"c","context":{"cluster":"c","user":"c","namespace":"default"}}]}`,
		config.Host, write("ca", config.CAData), write("crt", config.CertData), write("key", config.KeyData))
	return kubectl.Kubectl{Path: path, Kubeconfig: write("config", []byte(kubeconfig)), Home: dir}
}

// web is an HTTP server on this host, as a pod's.
func web(t testing.TB, h http.Handler) (port string) {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}
