package aggregation_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/apiserver/openapi"
	"github.com/keelson-dev/keelson/apiserver/serving"
	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/requestheader"
	"github.com/keelson-dev/keelson/authz/webhook"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/wire"
	"github.com/keelson-dev/keelson/internal/upstream"
	"github.com/keelson-dev/keelson/internal/upstream/controlplane"
	"github.com/keelson-dev/keelson/pki"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/storage/memory"
)

var shop = schema.GroupVersion{Group: "shop.example.com", Version: "v1"}

// carts are a kind of keelson's server. They note who made them.
func carts() registry.Kind {
	return registry.Definition[*corev1.ConfigMap]{
		Names: registry.Names{Kind: "Cart", Plural: "carts", Singular: "cart"}, GroupVersion: shop, Namespaced: true,
		New:     func() *corev1.ConfigMap { return &corev1.ConfigMap{} },
		NewList: func() runtime.Object { return &corev1.ConfigMapList{} },
		Rules: registry.Rules[*corev1.ConfigMap]{PrepareCreate: func(ctx context.Context, c *corev1.ConfigMap) {
			who := authn.FromContext(ctx)
			c.Data = map[string]string{"by": fmt.Sprint(who.Name, " ", who.Groups)}
		}},
	}.Kind()
}

// upstreamWithProxy runs kube-apiserver, which shows certificates of the authority to other servers.
func upstreamWithProxy(t *testing.T, front *pki.Authority) *controlplane.Site {
	t.Helper()
	site, err := controlplane.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	args, err := site.Arguments(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	proxy := issue(t, front, pki.Subject{Name: "front-proxy-client"})
	for name, data := range map[string][]byte{"front.ca": front.PEM(), "front.crt": proxy.Certificate, "front.key": proxy.Key} {
		if err := os.WriteFile(site.File(name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	args[upstream.APIServer] = append(args[upstream.APIServer],
		"--requestheader-client-ca-file="+site.File("front.ca"), "--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-", "--requestheader-uid-headers=X-Remote-Uid",
		"--proxy-client-cert-file="+site.File("front.crt"), "--proxy-client-key-file="+site.File("front.key"))
	programs, err := upstream.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{upstream.Etcd, upstream.APIServer} {
		path, err := programs.Build(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		daemon := controlplane.StartDaemon(path, args[name], site.File(name+".log"))
		t.Cleanup(func() {
			if err := daemon.Stop(); err != nil {
				t.Error(err)
			}
			if text, err := os.ReadFile(site.File(name + ".log")); err == nil && t.Failed() {
				t.Logf("the last of %s:\n%s", name, text[max(0, len(text)-3000):])
			}
		})
	}
	return site
}

// eventually polls until a check passes.
func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// extension runs a server of keelson's packages behind another one, as whose clients it authenticates and authorizes its own.
func extension(t *testing.T, behind *rest.Config, certificate tls.Certificate) *net.TCPAddr {
	t.Helper()
	cs, err := kubernetes.NewForConfig(behind)
	if err != nil {
		t.Fatal(err)
	}
	who := &requestheader.Follower{}
	source, err := wire.New[*corev1.ConfigMap](behind, scheme.Scheme, corev1.SchemeGroupVersion.WithResource("configmaps"), wire.Options{
		Namespace: requestheader.Namespace, FieldSelector: "metadata.name=" + requestheader.Name,
	})
	if err != nil {
		t.Fatal(err)
	}
	published := informer.New(source, informer.Options{})
	follow := func(c *corev1.ConfigMap) {
		if err := who.Set(c.Data); err != nil {
			t.Error(err)
		}
	}
	published.AddHandler(informer.Handler[*corev1.ConfigMap]{Added: follow, Updated: func(_, c *corev1.ConfigMap) { follow(c) }})
	may := webhook.New(webhook.ReviewerFunc(func(ctx context.Context, review *authorizationv1.SubjectAccessReview) (*authorizationv1.SubjectAccessReview, error) {
		return cs.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	}), webhook.Options{KeepOthers: -1})
	store := memory.New(memory.Options{})
	reg, err := registry.New(store, []registry.Kind{carts()}, registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := serving.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	drain := apiserver.NewDrain()
	server := serving.New(listener, certificate, drain.Handler(apiserver.New(reg, apiserver.Options{
		Authenticator: authn.AnonymousFallback(authn.WithGroup(who, authn.GroupAuthenticated)), Authorizer: may,
		Paths: openapi.Follow(reg.Kinds, openapi.Options{}).Paths(),
	})), serving.Options{Drain: drain.EndStreams})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, run := range []func(context.Context) error{reg.Run, published.Run, server.Run} {
		running.Go(func() {
			if err := run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		running.Wait()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().(*net.TCPAddr)
}

// TestBehindUpstream: a server of keelson's packages stands behind kube-apiserver's aggregator: it believes the users that this one
// names, asks it what they may do, follows what it publishes, and its kind is served, discovered and documented there.
func TestBehindUpstream(t *testing.T) {
	front, own := authority(t, "front-proxy-ca"), authority(t, "carts")
	site := upstreamWithProxy(t, front)
	admin, err := site.Config("admin", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	cs, err := kubernetes.NewForConfig(admin)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	eventually(t, "kube-apiserver", func() error {
		return cs.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
	certificate, err := issue(t, own, pki.Subject{Name: "carts", Hosts: []string{"carts.default.svc"}}).TLS()
	if err != nil {
		t.Fatal(err)
	}
	at := extension(t, admin, certificate)
	if _, err := cs.CoreV1().Services("default").Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "carts"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	dyn, err := dynamic.NewForConfig(admin)
	if err != nil {
		t.Fatal(err)
	}
	apply(t, dyn, &apiregistrationv1.APIService{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apiregistration.k8s.io/v1", Kind: "APIService"},
		ObjectMeta: metav1.ObjectMeta{Name: shop.Version + "." + shop.Group},
		Spec: apiregistrationv1.APIServiceSpec{
			Group: shop.Group, Version: shop.Version, GroupPriorityMinimum: 1000, VersionPriority: 10, CABundle: own.PEM(),
			Service: &apiregistrationv1.ServiceReference{Namespace: "default", Name: "carts", Port: new(int32(at.Port))}, //nolint:gosec // a port
		},
	})
	gvr := shop.WithResource("carts")
	in := dyn.Resource(gvr).Namespace("default")
	eventually(t, "the APIService", func() error { _, err := in.List(ctx, metav1.ListOptions{}); return err })

	w, err := in.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	one := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": shop.String(), "kind": "Cart", "metadata": map[string]any{"name": "one", "namespace": "default"},
	}}
	made, err := in.Create(ctx, one, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if by, _, _ := unstructured.NestedString(made.Object, "data", "by"); by != "admin [system:masters system:authenticated]" {
		t.Errorf("made by %q", by)
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

	// Upstream's roles decide, for users that upstream has authenticated.
	asAnn, err := site.Config("ann", "shoppers")
	if err != nil {
		t.Fatal(err)
	}
	ann, err := dynamic.NewForConfig(asAnn)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ann.Resource(gvr).Namespace("default").List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a user without a role: %v", err)
	}
	if _, err := cs.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "shopper"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{shop.Group}, Resources: []string{"carts"}, Verbs: []string{"create", "list"}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := cs.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "shoppers"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "shopper"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "shoppers"}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the role", func() error {
		_, err := ann.Resource(gvr).Namespace("default").List(ctx, metav1.ListOptions{})
		return err
	})
	made, err = ann.Resource(gvr).Namespace("default").Create(ctx, one, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if by, _, _ := unstructured.NestedString(made.Object, "data", "by"); by != "ann [shoppers system:authenticated]" {
		t.Errorf("made by %q", by)
	}

	// Directly, only the proxy may say who asks; users show their own certificates.
	if code := directly(t, at, own, tls.Certificate{}, "admin"); code != http.StatusForbidden {
		t.Errorf("headers without a certificate: %d", code)
	}
	if code := directly(t, at, own, tlsOf(t, front, "eve"), "admin"); code != http.StatusUnauthorized {
		t.Errorf("a certificate of another name: %d", code)
	}
	if code := directly(t, at, own, tlsOf(t, front, "front-proxy-client"), "ann"); code != http.StatusForbidden {
		t.Errorf("the proxy, for a user without groups: %d", code)
	}
	masters, err := tls.X509KeyPair(admin.CertData, admin.KeyData)
	if err != nil {
		t.Fatal(err)
	}
	if code := directly(t, at, own, masters, ""); code != http.StatusOK {
		t.Errorf("the administrator's own certificate: %d", code)
	}

	// What is published is followed. kube-apiserver restores it, with its own, later.
	cm, err := cs.CoreV1().ConfigMaps(requestheader.Namespace).Get(ctx, requestheader.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cm.Data["requestheader-allowed-names"] = `["eve"]`
	if _, err := cs.CoreV1().ConfigMaps(requestheader.Namespace).Update(ctx, cm, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another proxy", func() error {
		if code := directly(t, at, own, tlsOf(t, front, "eve"), "ann"); code != http.StatusForbidden {
			return fmt.Errorf("still %d", code)
		}
		return nil
	})

	eventually(t, "discovery and OpenAPI", func() error { return documented(cs) })
}

// documented reports what discovery and OpenAPI of kube-apiserver lack of the kind.
func documented(cs kubernetes.Interface) error {
	list, err := cs.Discovery().ServerResourcesForGroupVersion(shop.String())
	if err != nil {
		return err
	}
	if len(list.APIResources) != 1 || list.APIResources[0].Kind != "Cart" {
		return fmt.Errorf("discovery has %v", list.APIResources)
	}
	v3, err := cs.Discovery().OpenAPIV3().Paths()
	if err != nil {
		return err
	}
	const path = "/apis/shop.example.com/v1/namespaces/{namespace}/carts/{name}"
	document := v3["apis/"+shop.String()]
	if document == nil {
		return errors.New("OpenAPI v3 lacks the version")
	}
	data, err := document.Schema(runtime.ContentTypeJSON)
	if err != nil {
		return err
	}
	var content struct{ Paths map[string]any }
	if err := json.Unmarshal(data, &content); err != nil || content.Paths[path] == nil {
		return fmt.Errorf("OpenAPI v3 lacks the kind: %w", err)
	}
	v2, err := cs.Discovery().OpenAPISchema()
	if err != nil {
		return err
	}
	for _, p := range v2.GetPaths().GetPath() {
		if p.GetName() == path {
			return nil
		}
	}
	return errors.New("OpenAPI v2 lacks the kind")
}

func tlsOf(t *testing.T, a *pki.Authority, name string) tls.Certificate {
	t.Helper()
	c, err := issue(t, a, pki.Subject{Name: name}).TLS()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// directly lists carts at keelson's server itself, and says who is asking. It returns the answer's code.
func directly(t *testing.T, at *net.TCPAddr, roots *pki.Authority, certificate tls.Certificate, user string) int {
	t.Helper()
	config := &tls.Config{RootCAs: roots.Pool(), ServerName: "carts.default.svc", MinVersion: tls.VersionTLS12}
	if certificate.Certificate != nil {
		config.Certificates = []tls.Certificate{certificate}
	}
	transport := &http.Transport{TLSClientConfig: config}
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://127.0.0.1:"+strconv.Itoa(at.Port)+"/apis/"+shop.String()+"/namespaces/default/carts", nil)
	if err != nil {
		t.Fatal(err)
	}
	if user != "" {
		r.Header.Set("X-Remote-User", user)
	}
	answer, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	return answer.StatusCode
}

// apply creates the APIService.
func apply(t *testing.T, dyn dynamic.Interface, s *apiregistrationv1.APIService) {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(s)
	if err != nil {
		t.Fatal(err)
	}
	in := dyn.Resource(apiregistrationv1.SchemeGroupVersion.WithResource("apiservices"))
	if _, err := in.Create(t.Context(), &unstructured.Unstructured{Object: content}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
