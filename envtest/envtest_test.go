package envtest_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/envtest"
)

func guestbook(name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Guestbook"})
	u.SetNamespace("default")
	u.SetName(name)
	u.Object["spec"] = map[string]any{"title": name}
	return u
}

func start(t *testing.T, env *envtest.Environment) client.WithWatch {
	t.Helper()
	config, err := env.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	})
	api, err := client.NewWithWatch(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return api
}

// await waits until an object is as wanted.
func await(t *testing.T, api client.WithWatch, name string, wanted func(*unstructured.Unstructured) bool) {
	t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(guestbook("").GroupVersionKind())
	w, err := api.Watch(t.Context(), list, client.InNamespace("default"))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		if u, ok := e.Object.(*unstructured.Unstructured); ok && u.GetName() == name && wanted(u) {
			return
		}
	}
	t.Fatal("the watch ended")
}

// An operator's suite: definitions from a directory, a manager with a controller, and a webhook that the manager serves.
func TestSuite(t *testing.T) {
	refuse := admission.HandlerFunc(func(_ context.Context, r admission.Request) admission.Response {
		var u unstructured.Unstructured
		if err := json.Unmarshal(r.Object.Raw, &u); err != nil {
			return admission.Errored(http.StatusBadRequest, err)
		}
		if title, _, _ := unstructured.NestedString(u.Object, "spec", "title"); title == "bad" {
			return admission.Denied("a bad title")
		}
		return admission.Allowed("")
	})
	env := &envtest.Environment{
		CRDDirectoryPaths: []string{filepath.Join("testdata", "crds")}, ErrorIfCRDPathMissing: true,
		WebhookInstallOptions: envtest.WebhookInstallOptions{ValidatingWebhooks: []*registrationv1.ValidatingWebhookConfiguration{{
			ObjectMeta: metav1.ObjectMeta{Name: "guestbooks"},
			Webhooks: []registrationv1.ValidatingWebhook{{
				Name: "guestbooks.example.com", AdmissionReviewVersions: []string{"v1"}, SideEffects: new(registrationv1.SideEffectClassNone),
				ClientConfig: registrationv1.WebhookClientConfig{Service: &registrationv1.ServiceReference{Namespace: "system", Name: "hook", Path: new("validate")}},
				Rules: []registrationv1.RuleWithOperations{{
					Operations: []registrationv1.OperationType{registrationv1.Create},
					Rule:       registrationv1.Rule{APIGroups: []string{"example.com"}, APIVersions: []string{"v1"}, Resources: []string{"guestbooks"}},
				}},
			}},
		}}},
	}
	api := start(t, env)
	if len(env.CRDs) != 1 || env.Config == nil || len(env.KubeConfig) == 0 {
		t.Fatalf("%d definitions", len(env.CRDs))
	}
	if _, err := env.Start(); !errors.Is(err, envtest.ErrStarted) {
		t.Errorf("started twice: %v", err)
	}

	at := env.WebhookInstallOptions
	manager, err := ctrl.NewManager(env.Config, ctrl.Options{
		Metrics: server.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: new(true)},
		WebhookServer: webhook.NewServer(webhook.Options{Host: at.LocalServingHost, Port: at.LocalServingPort, CertDir: at.LocalServingCertDir}),
	})
	if err != nil {
		t.Fatal(err)
	}
	manager.GetWebhookServer().Register("/validate", &webhook.Admission{Handler: refuse})
	err = ctrl.NewControllerManagedBy(manager).For(guestbook("")).Complete(reconciler{manager.GetClient()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- manager.Start(ctx) }()
	defer func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	if !manager.GetCache().WaitForCacheSync(ctx) {
		t.Fatal("the cache did not sync")
	}
	for manager.GetWebhookServer().StartedChecker()(nil) != nil {
		time.Sleep(time.Millisecond)
	}

	if err := api.Create(ctx, guestbook("first")); err != nil {
		t.Fatal(err)
	}
	await(t, api, "first", func(u *unstructured.Unstructured) bool {
		ready, _, _ := unstructured.NestedBool(u.Object, "status", "ready")
		pages, _, _ := unstructured.NestedInt64(u.Object, "spec", "pages")
		return ready && pages == 10
	})
	if err := api.Create(ctx, guestbook("bad")); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `admission webhook "guestbooks.example.com" denied the request: a bad title`) {
		t.Errorf("a bad title: %v", err)
	}
	invalid := guestbook("x")
	invalid.Object["spec"] = map[string]any{"title": "x", "pages": int64(0)}
	if err := api.Create(ctx, invalid); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.pages") {
		t.Errorf("no pages: %v", err)
	}
}

// reconciler sets guestbooks ready.
type reconciler struct{ client.Client }

func (r reconciler) Reconcile(ctx context.Context, q ctrl.Request) (ctrl.Result, error) {
	u := guestbook("")
	if err := r.Get(ctx, q.NamespacedName, u); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if ready, _, _ := unstructured.NestedBool(u.Object, "status", "ready"); ready {
		return ctrl.Result{}, nil
	}
	u.Object["status"] = map[string]any{"ready": true}
	return ctrl.Result{}, r.Status().Update(ctx, u)
}

// Users may do what their roles allow, by configuration, by kubeconfig and by upstream's methods.
func TestUsers(t *testing.T) {
	env := &envtest.Environment{}
	start(t, env)
	user, err := env.AddUser(envtest.User{Name: "jane", Groups: []string{"g"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	file, err := user.KubeConfig()
	if err != nil {
		t.Fatal(err)
	}
	fromFile, err := clientcmd.RESTConfigFromKubeConfig(file)
	if err != nil {
		t.Fatal(err)
	}
	admin, err := clientcmd.RESTConfigFromKubeConfig(env.KubeConfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, config := range []struct {
		of   string
		with func() (client.Client, error)
		may  bool
	}{
		{"jane", func() (client.Client, error) { return client.New(user.Config(), client.Options{}) }, false},
		{"jane's file", func() (client.Client, error) { return client.New(fromFile, client.Options{}) }, false},
		{"the administrator's file", func() (client.Client, error) { return client.New(admin, client.Options{}) }, true},
	} {
		api, err := config.with()
		if err == nil {
			err = api.List(t.Context(), &corev1.SecretList{})
		}
		if config.may != (err == nil) || !config.may && !(apierrors.IsForbidden(err) && strings.Contains(err.Error(), `User "jane"`)) {
			t.Errorf("%s: %v", config.of, err)
		}
	}
}

// In a bubble: no network, virtual time, a webhook as a handler, controllers and nodes.
func TestInProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var review admissionv1.AdmissionReview
			if err := json.NewDecoder(r.Body).Decode(&review); err != nil || r.URL.Path != "/label" {
				http.Error(w, r.URL.Path, http.StatusBadRequest)
				return
			}
			review.Response = &admissionv1.AdmissionResponse{
				UID: review.Request.UID, Allowed: true, PatchType: new(admissionv1.PatchTypeJSONPatch), Patch: []byte(`[{"op":"add","path":"/metadata/labels/by","value":"hook"}]`),
			}
			_ = json.NewEncoder(w).Encode(&review)
		})
		env := &envtest.Environment{
			InProcess: true, WebhookHandler: handler, CRDDirectoryPaths: []string{filepath.Join("testdata", "crds")},
			Components: cluster.DefaultComponents(), Nodes: cluster.Nodes{Count: 1},
		}
		api := start(t, env)
		if env.Cluster() == nil || len(env.KubeConfig) != 0 {
			t.Errorf("cluster %v, kubeconfig %s", env.Cluster(), env.KubeConfig)
		}
		if err := api.Create(t.Context(), &registrationv1.MutatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "label"},
			Webhooks: []registrationv1.MutatingWebhook{{
				Name: "label.example.com", AdmissionReviewVersions: []string{"v1"}, SideEffects: new(registrationv1.SideEffectClassNone),
				ClientConfig: registrationv1.WebhookClientConfig{Service: &registrationv1.ServiceReference{Namespace: "a", Name: "b", Path: new("/label")}},
				Rules: []registrationv1.RuleWithOperations{{
					Operations: []registrationv1.OperationType{registrationv1.Create},
					Rule:       registrationv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}},
				}},
			}},
		}); err != nil {
			t.Fatal(err)
		}
		labels := map[string]string{"app": "web"}
		d := &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", Labels: labels},
			Spec: appsv1.DeploymentSpec{
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}},
			},
		}
		if err := api.Create(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(d), d); err != nil || d.Status.AvailableReplicas != 1 || d.Labels["by"] != "hook" {
			t.Errorf("%v, labels %v, status %+v", err, d.Labels, d.Status)
		}
		if err := api.Create(t.Context(), guestbook("a")); err != nil {
			t.Error(err)
		}
		jane, err := env.AddUser(envtest.User{Name: "jane"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		other, err := client.New(jane.Config(), client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := other.List(t.Context(), &corev1.SecretList{}); !apierrors.IsForbidden(err) {
			t.Errorf("jane: %v", err)
		}
	})
}

// TestPolicies: admission policies judge what a suite creates.
func TestPolicies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		judge(t, start(t, &envtest.Environment{InProcess: true}))
	})
}

// judge has a policy judge ConfigMaps.
func judge(t *testing.T, api client.WithWatch) {
	t.Helper()
	policy := &registrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "owners"},
		Spec: registrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &registrationv1.MatchResources{ResourceRules: []registrationv1.NamedRuleWithOperations{{
				RuleWithOperations: registrationv1.RuleWithOperations{
					Operations: []registrationv1.OperationType{registrationv1.Create},
					Rule:       registrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
				},
			}}},
			Validations: []registrationv1.Validation{{Expression: "has(object.metadata.labels)", Message: "who owns it?"}},
		},
	}
	binding := &registrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "owners"},
		Spec: registrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: "owners", ValidationActions: []registrationv1.ValidationAction{registrationv1.Deny},
		},
	}
	for _, obj := range []client.Object{policy, binding} {
		if err := api.Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	err := api.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}})
	if err == nil || !strings.HasSuffix(err.Error(), "denied request: who owns it?") {
		t.Errorf("without a label: %v", err)
	}
	if err := api.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "b", Labels: map[string]string{"owner": "me"}}}); err != nil {
		t.Errorf("with a label: %v", err)
	}
}

// What cannot be installed fails Start, which leaves nothing running; the Environment can be started again.
func TestFailedStart(t *testing.T) {
	env := &envtest.Environment{CRDDirectoryPaths: []string{filepath.Join("testdata", "none")}, ErrorIfCRDPathMissing: true}
	if _, err := env.Start(); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("without definitions: %v", err)
	}
	if env.Cluster() != nil {
		t.Error("a cluster runs")
	}
	env.CRDInstallOptions, env.CRDDirectoryPaths = envtest.CRDInstallOptions{}, []string{filepath.Join("testdata", "crds")}
	api := start(t, env)
	if err := api.Create(t.Context(), guestbook("a")); err != nil {
		t.Error(err)
	}
	existing := &envtest.Environment{UseExistingCluster: new(true), Config: env.Config}
	if err := start(t, existing).Get(t.Context(), client.ObjectKeyFromObject(guestbook("a")), guestbook("a")); err != nil {
		t.Errorf("the same cluster: %v", err)
	}
	if err := (&envtest.Environment{}).Stop(); err != nil {
		t.Errorf("stopped without a start: %v", err)
	}
}

func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		env := &envtest.Environment{CRDDirectoryPaths: []string{filepath.Join("testdata", "crds")}}
		if _, err := env.Start(); err != nil {
			b.Fatal(err)
		}
		if err := env.Stop(); err != nil {
			b.Fatal(err)
		}
	}
}

// TestAggregation: an APIService is served, and its status tells that the service it names is not there.
func TestAggregation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, &envtest.Environment{InProcess: true})
		service := &unstructured.Unstructured{Object: map[string]any{
			"spec": map[string]any{
				"group": "wardle.example.com", "version": "v1", "groupPriorityMinimum": int64(1000), "versionPriority": int64(10),
				"insecureSkipTLSVerify": true, "service": map[string]any{"namespace": "default", "name": "wardle"},
			},
		}}
		service.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"})
		service.SetName("v1.wardle.example.com")
		if err := api.Create(t.Context(), service); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(service), service); err != nil {
			t.Fatal(err)
		}
		conditions, _, _ := unstructured.NestedSlice(service.Object, "status", "conditions")
		if len(conditions) != 1 || conditions[0].(map[string]any)["reason"] != "ServiceNotFound" {
			t.Errorf("conditions: %v", conditions)
		}
	})
}
