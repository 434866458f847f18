package aggregation_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/keelson-dev/keelson/authn/requestheader"
	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/cluster/aggregation"
	"github.com/keelson-dev/keelson/cluster/customresources"
	"github.com/keelson-dev/keelson/pki"
)

var (
	backups     = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "backups"}
	definitions = apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")
	apiServices = apiregistrationv1.SchemeGroupVersion.WithResource("apiservices")
)

// api are the clients of a test.
type api struct {
	t   testing.TB
	any dynamic.Interface
	cs  kubernetes.Interface
}

func clients(t testing.TB, config *rest.Config) *api {
	t.Helper()
	dyn, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	cs, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return &api{t, dyn, cs}
}

func start(t testing.TB, o cluster.Options) *cluster.Cluster {
	t.Helper()
	o.OnMutation = func(err error) { t.Errorf("a shared object was changed: %v", err) }
	c, err := cluster.Start(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return c
}

func custom() cluster.Extension { return customresources.Extension(customresources.Options{}) }

func (a *api) create(in dynamic.ResourceInterface, obj any) *unstructured.Unstructured {
	a.t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		a.t.Fatal(err)
	}
	u, err := in.Create(a.t.Context(), &unstructured.Unstructured{Object: content}, metav1.CreateOptions{})
	if err != nil {
		a.t.Fatal(err)
	}
	return u
}

// until waits until an object satisfies the condition; nil stands for one that does not exist.
func (a *api) until(in dynamic.ResourceInterface, name string, ok func(u *unstructured.Unstructured) bool) {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), time.Minute)
	defer cancel()
	for {
		u, err := in.Get(ctx, name, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			a.t.Fatal(err)
		}
		if err != nil {
			u = nil
		}
		if ok(u) {
			return
		}
		version := ""
		if u != nil {
			version = u.GetResourceVersion()
		}
		w, err := in.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name, ResourceVersion: version})
		if err != nil {
			a.t.Fatal(err)
		}
		e, more := <-w.ResultChan()
		w.Stop()
		if !more && ctx.Err() != nil {
			a.t.Fatalf("%s: last %v, %v", name, u, e)
		}
	}
}

// condition waits for what Available says of an APIService.
func (a *api) condition(name, want string) {
	a.t.Helper()
	a.until(a.any.Resource(apiServices), name, func(u *unstructured.Unstructured) bool { return available(u) == want })
}

func available(u *unstructured.Unstructured) string {
	if u == nil {
		return ""
	}
	all, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, c := range all {
		c := c.(map[string]any)
		return fmt.Sprintf("%v %v: %v", c["status"], c["reason"], c["message"])
	}
	return ""
}

func apiService(roots []byte) *apiregistrationv1.APIService {
	return &apiregistrationv1.APIService{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apiregistration.k8s.io/v1", Kind: "APIService"},
		ObjectMeta: metav1.ObjectMeta{Name: "v1.example.com"},
		Spec: apiregistrationv1.APIServiceSpec{
			Group: "example.com", Version: "v1", GroupPriorityMinimum: 2000, VersionPriority: 10, CABundle: roots,
			Service: &apiregistrationv1.ServiceReference{Namespace: "default", Name: "api"},
		},
	}
}

func definition() *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{Name: "backups.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "backups", Singular: "backup", Kind: "Backup", ListKind: "BackupList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"size": {Type: "integer", Description: "How large it is."}},
				}},
			}},
		},
	}
}

func (a *api) established() {
	a.t.Helper()
	a.create(a.any.Resource(definitions), definition())
	a.until(a.any.Resource(definitions), "backups.example.com", func(u *unstructured.Unstructured) bool {
		text, _ := u.MarshalJSON()
		return strings.Contains(string(text), `"reason":"InitialNamesAccepted"`)
	})
}

// service points to a server; external services need no endpoints, those of type ClusterIP have one on that port.
func (a *api) service(port int32) {
	a.t.Helper()
	ctx := a.t.Context()
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "api"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "example.com"}}
	if port > 0 {
		s.Spec = corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "https", Port: 443}}}
		_, err := a.cs.DiscoveryV1().EndpointSlices("default").Create(ctx, &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Name: "api-1", Labels: map[string]string{discoveryv1.LabelServiceName: "api"}},
			AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.1.2.3"}}},
			Ports: []discoveryv1.EndpointPort{{Name: new("https"), Port: &port}},
		}, metav1.CreateOptions{})
		if err != nil {
			a.t.Fatal(err)
		}
	}
	if _, err := a.cs.CoreV1().Services("default").Create(ctx, s, metav1.CreateOptions{}); err != nil {
		a.t.Fatal(err)
	}
}

func backup(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Backup", "metadata": map[string]any{"name": name}, "size": int64(1),
	}}
}

// use does with aggregated objects what clients do.
func (a *api) use() {
	a.t.Helper()
	ctx, in := a.t.Context(), a.any.Resource(backups).Namespace("default")
	w, err := in.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		a.t.Fatal(err)
	}
	defer w.Stop()
	seen := func(want watch.EventType) {
		a.t.Helper()
		select {
		case e := <-w.ResultChan():
			if e.Type != want {
				a.t.Errorf("watched %v, want %s", e, want)
			}
		case <-time.After(time.Minute):
			a.t.Fatalf("no %s was watched", want)
		}
	}
	if _, err := in.Create(ctx, backup("a"), metav1.CreateOptions{}); err != nil {
		a.t.Fatal(err)
	}
	seen(watch.Added)
	u, err := in.Patch(ctx, "a", types.MergePatchType, []byte(`{"size":2}`), metav1.PatchOptions{})
	if err != nil || u.Object["size"] != int64(2) {
		a.t.Errorf("patched: %v, %v", u, err)
	}
	seen(watch.Modified)
	if l, err := in.List(ctx, metav1.ListOptions{}); err != nil || len(l.Items) != 1 {
		a.t.Errorf("listed: %v, %v", l, err)
	}
	if _, err := in.Create(ctx, backup("a"), metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		a.t.Errorf("created twice: %v", err)
	}
	if err := in.Delete(ctx, "a", metav1.DeleteOptions{}); err != nil {
		a.t.Error(err)
	}
	seen(watch.Deleted)
}

// listed tells how both forms of discovery show the aggregated group: its freshness and resources.
func (a *api) listed() (legacy, freshness string, resources []string) {
	a.t.Helper()
	raw := func(accept string) []byte {
		data, err := a.cs.Discovery().RESTClient().Get().AbsPath("/apis").SetHeader("Accept", accept).DoRaw(a.t.Context())
		if err != nil {
			a.t.Fatal(err)
		}
		return data
	}
	var groups metav1.APIGroupList
	if err := json.Unmarshal(raw("application/json"), &groups); err != nil {
		a.t.Fatal(err)
	}
	for i, g := range groups.Groups {
		if g.Name == "example.com" {
			legacy = fmt.Sprintf("%s of %d, preferred %s", g.Name, i, g.PreferredVersion.Version)
			if i == 0 || groups.Groups[0].Name != "apiregistration.k8s.io" || i != len(groups.Groups)-1 {
				a.t.Errorf("the groups are %v", groups.Groups)
			}
		}
	}
	var all struct {
		Items []struct {
			Metadata metav1.ObjectMeta
			Versions []struct {
				Freshness string
				Resources []struct{ Resource string }
			}
		}
	}
	if err := json.Unmarshal(raw("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"), &all); err != nil {
		a.t.Fatal(err)
	}
	for _, g := range all.Items {
		if g.Metadata.Name == "example.com" {
			freshness = g.Versions[0].Freshness
			for _, r := range g.Versions[0].Resources {
				resources = append(resources, r.Resource)
			}
		}
	}
	return legacy, freshness, resources
}

// TestTLS: two clusters, one of which serves a group of the other's API, over TLS, and believes the other's certificate.
func TestTLS(t *testing.T) {
	frontCA, err := pki.New("front-proxy-ca")
	if err != nil {
		t.Fatal(err)
	}
	serverCA, err := pki.New("server")
	if err != nil {
		t.Fatal(err)
	}
	certificate := func(ca *pki.Authority, s pki.Subject) tls.Certificate {
		pair, err := ca.Issue(s, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		c, err := pair.TLS()
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	behind := start(t, cluster.Options{Extensions: []cluster.Extension{custom()}, Server: cluster.Server{FrontProxy: &cluster.FrontProxy{
		CA: frontCA.PEM(), Headers: requestheader.Options{AllowedNames: []string{"front-proxy-client"}},
	}}})
	clients(t, behind.Config()).established()
	server := httptest.NewUnstartedServer(behind.Handler())
	server.TLS = &tls.Config{
		ClientAuth:   tls.RequestClientCert,
		Certificates: []tls.Certificate{certificate(serverCA, pki.Subject{Name: "api", Hosts: []string{"api.default.svc"}})},
	}
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(func() { behind.Drain(); server.Close() })
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(at.Port())
	if err != nil {
		t.Fatal(err)
	}
	var dialed atomic.Pointer[string]
	front := certificate(frontCA, pki.Subject{Name: "front-proxy-client"})
	c := start(t, cluster.Options{Extensions: []cluster.Extension{aggregation.Extension(aggregation.Options{
		Certificate: &front, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			dialed.Store(&address)
			return new(net.Dialer).DialContext(ctx, network, at.Host)
		},
	})}})
	a := clients(t, c.Config())
	a.service(int32(port))
	a.create(a.any.Resource(apiServices), apiService(serverCA.PEM()))
	a.condition("v1.example.com", "True Passed: all checks passed")
	if want := "10.1.2.3:" + at.Port(); *dialed.Load() != want {
		t.Errorf("dialed %s, want %s", *dialed.Load(), want)
	}
	a.use()

	// Users without rights there are refused by the other server, in its words, and by this one first if they have none here.
	for _, test := range []struct{ user, want string }{
		{"ann", `backups.example.com is forbidden: User "ann" cannot list resource "backups" in API group "example.com" in the namespace "default"`},
	} {
		_, err := clients(t, c.ConfigFor(cluster.User(test.user))).any.Resource(backups).Namespace("default").List(t.Context(), metav1.ListOptions{})
		if err == nil || err.Error() != test.want {
			t.Errorf("%s: %v", test.user, err)
		}
	}
}

// TestAvailability: an APIService is available while its server answers; discovery says what it last was.
func TestAvailability(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		behind := start(t, cluster.Options{Extensions: []cluster.Extension{custom()}})
		clients(t, behind.Config()).established()
		var down atomic.Bool
		handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if down.Load() {
				http.Error(w, "down", http.StatusInternalServerError)
				return
			}
			behind.Handler().ServeHTTP(w, r)
		})
		c := start(t, cluster.Options{Extensions: []cluster.Extension{aggregation.Extension(aggregation.Options{
			Handlers: map[types.NamespacedName]http.Handler{{Namespace: "default", Name: "api"}: handler},
		})}})
		a := clients(t, c.Config())
		expect := func(legacy, freshness string, resources ...string) {
			t.Helper()
			if l, f, r := a.listed(); l != legacy || f != freshness || !slices.Equal(r, resources) {
				t.Errorf("%s: discovery shows %q, %q, %v", time.Now(), l, f, r)
			}
		}
		expect("", "")
		a.create(a.any.Resource(apiServices), apiService(nil))
		a.condition("v1.example.com", `False ServiceNotFound: service/api in "default" is not present`)
		if _, err := a.any.Resource(backups).Namespace("default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsServiceUnavailable(err) ||
			!strings.Contains(err.Error(), "unable to handle the request") {
			t.Errorf("not available: %v", err)
		}
		time.Sleep(2 * time.Minute)
		groups, _, _ := a.listed()
		if groups == "" {
			t.Error("a group that is not available is not listed")
		}
		expect(groups, "Stale")
		a.service(0)
		a.condition("v1.example.com", "True Passed: all checks passed")
		time.Sleep(2 * time.Minute)
		expect(groups, "Current", "backups")
		a.use()

		down.Store(true)
		time.Sleep(time.Minute)
		a.condition("v1.example.com", "False FailedDiscoveryCheck: failing or missing response from https://api.default.svc/apis/example.com/v1: bad status from https://api.default.svc/apis/example.com/v1: 500")
		time.Sleep(2 * time.Minute)
		expect(groups, "Stale", "backups")
		down.Store(false)
		time.Sleep(time.Minute)
		a.condition("v1.example.com", "True Passed: all checks passed")
		time.Sleep(2 * time.Minute)
		expect(groups, "Current", "backups")
		a.use()

		if err := a.any.Resource(apiServices).Delete(t.Context(), "v1.example.com", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		expect("", "")
		if _, err := a.any.Resource(backups).Namespace("default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("without an APIService: %v", err)
		}
	})
}

// TestEndpoints: what keeps an APIService of a service with a cluster IP from being available.
func TestEndpoints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, cluster.Options{Extensions: []cluster.Extension{aggregation.Extension(aggregation.Options{
			Dial: func(context.Context, string, string) (net.Conn, error) { return nil, net.ErrClosed },
		})}})
		a, ctx := clients(t, c.Config()), t.Context()
		s := apiService(nil)
		s.Spec.Service.Port = new(int32(8443))
		a.create(a.any.Resource(apiServices), s)
		if _, err := a.cs.CoreV1().Services("default").Create(ctx, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: "api"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "https", Port: 443}}},
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		a.condition(s.Name, `False ServicePortError: service/api in "default" is not listening on port 8443`)
		if _, err := a.any.Resource(apiServices).Patch(ctx, s.Name, types.MergePatchType, []byte(`{"spec":{"service":{"port":443}}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		a.condition(s.Name, `False EndpointsNotFound: cannot find endpointslices for service/api in "default"`)
		port := int32(443)
		slice := &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Name: "api-1", Labels: map[string]string{discoveryv1.LabelServiceName: "api"}},
			AddressType: discoveryv1.AddressTypeIPv4,
			Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.1.2.3"}, Conditions: discoveryv1.EndpointConditions{Ready: new(false)}}},
			Ports:       []discoveryv1.EndpointPort{{Name: new("https"), Port: &port}},
		}
		slice, err := a.cs.DiscoveryV1().EndpointSlices("default").Create(ctx, slice, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		a.condition(s.Name, `False MissingEndpoints: endpointslices for service/api in "default" have no addresses with port name "https"`)
		slice.Endpoints[0].Conditions.Ready = new(true)
		if _, err := a.cs.DiscoveryV1().EndpointSlices("default").Update(ctx, slice, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		a.condition(s.Name, `False FailedDiscoveryCheck: failing or missing response from https://10.1.2.3:443/apis/example.com/v1: Get "https://10.1.2.3:443/apis/example.com/v1": use of closed network connection`)
	})
}

// TestRegistration: what the cluster itself serves has APIServices: those of upstream's groups are users' to change until
// the next start, those of custom kinds come and go with them.
func TestRegistration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, cluster.Options{Extensions: []cluster.Extension{custom(), aggregation.Extension(aggregation.Options{})}})
		a, ctx := clients(t, c.Config()), t.Context()
		in := a.any.Resource(apiServices)
		time.Sleep(time.Second)
		show := func(name string) string {
			u, err := in.Get(ctx, name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return "none"
			}
			if err != nil {
				t.Fatal(err)
			}
			spec, _ := json.Marshal(u.Object["spec"])
			return fmt.Sprintf("%s %s %s", u.GetLabels()["kube-aggregator.kubernetes.io/automanaged"], spec, available(u))
		}
		expect := func(name, want string) {
			t.Helper()
			if got := show(name); got != want {
				t.Errorf("%s: %s\nwant %s", name, got, want)
			}
		}
		const local = "True Local: Local APIServices are always available"
		expect("v1.", `onstart {"groupPriorityMinimum":18000,"version":"v1","versionPriority":1} `+local)
		const apps = `onstart {"group":"apps","groupPriorityMinimum":17800,"version":"v1","versionPriority":15} ` + local
		expect("v1.apps", apps)
		expect("v1.apiregistration.k8s.io", "none")
		expect("v1.example.com", "none")
		a.established()
		time.Sleep(time.Second)
		const customs = `true {"group":"example.com","groupPriorityMinimum":1000,"version":"v1","versionPriority":100} ` + local
		expect("v1.example.com", customs)
		change := func(name string) {
			if _, err := in.Patch(ctx, name, types.MergePatchType, []byte(`{"spec":{"versionPriority":7}}`), metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		change("v1.example.com")
		change("v1.apps")
		time.Sleep(time.Second)
		expect("v1.example.com", customs)
		expect("v1.apps", strings.Replace(apps, `versionPriority":15`, `versionPriority":7`, 1))
		if err := a.any.Resource(definitions).Delete(ctx, "backups.example.com", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		expect("v1.example.com", "none")
	})
}
