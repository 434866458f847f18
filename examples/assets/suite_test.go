package main

import (
	"bytes"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// said is what a program writes, and may be read meanwhile.
type said struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *said) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

const definition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: guestbooks.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Guestbook, plural: guestbooks, singular: guestbook}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {pages: {type: integer, minimum: 1, default: 10}}}
`

// TestSuite: what an operator's suite does with its environment.
func TestSuite(t *testing.T) {
	crds := t.TempDir()
	write(t, filepath.Join(crds, "guestbooks.yaml"), definition)
	log, policy := filepath.Join(t.TempDir(), "audit.log"), file(t, "policy.yaml", "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n")
	var said said
	env := &envtest.Environment{
		CRDDirectoryPaths: []string{crds}, ErrorIfCRDPathMissing: true,
		WebhookInstallOptions: envtest.WebhookInstallOptions{ValidatingWebhooks: []*registrationv1.ValidatingWebhookConfiguration{{
			ObjectMeta: metav1.ObjectMeta{Name: "guestbooks"},
			Webhooks: []registrationv1.ValidatingWebhook{{
				Name: "guestbooks.example.com", AdmissionReviewVersions: []string{"v1"}, SideEffects: new(registrationv1.SideEffectClassNone),
				ClientConfig: registrationv1.WebhookClientConfig{Service: &registrationv1.ServiceReference{Namespace: "system", Name: "hook", Path: new("/validate")}},
				Rules: []registrationv1.RuleWithOperations{{
					Operations: []registrationv1.OperationType{registrationv1.Delete},
					Rule:       registrationv1.Rule{APIGroups: []string{"example.com"}, APIVersions: []string{"v1"}, Resources: []string{"guestbooks"}},
				}},
			}},
		}}},
	}
	server := env.ControlPlane.GetAPIServer()
	server.Err = &said
	server.Configure().Set("no-such-flag", "x").Set("feature-gates", "Some=true,CBORServingAndStorage=true").Set("runtime-config", "api/all=true", "nothing.example.com/v1=true").
		Set("audit-log-path", log).Set("audit-policy-file", policy).Set("authorization-mode", "Node", "RBAC").Append("service_cluster_ip_range", "10.9.0.0/24")
	defer func() {
		if t.Failed() {
			t.Log(said.String())
		}
	}()
	config := begin(t, installed(t), env)
	api := clientOf(t, config)

	guestbook := &unstructured.Unstructured{}
	guestbook.SetGroupVersionKind(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Guestbook"})
	guestbook.SetNamespace("default")
	guestbook.SetName("first")
	guestbook.Object["spec"] = map[string]any{}
	if err := api.Create(t.Context(), guestbook); err != nil {
		t.Fatal(err)
	}
	if pages, _, _ := unstructured.NestedInt64(guestbook.Object, "spec", "pages"); pages != 10 {
		t.Errorf("it has %d pages", pages)
	}
	raw := kubernetes.NewForConfigOrDie(config).RESTClient().Get().AbsPath("/apis/example.com/v1/guestbooks").SetHeader("Accept", "application/cbor")
	if list, err := raw.Do(t.Context()).Raw(); err != nil || !bytes.HasPrefix(list, []byte("\xd9\xd9\xf7")) {
		t.Errorf("no CBOR: %q, %v", list, err)
	}
	// Nothing serves the webhook here: that it is called is enough.
	if err := api.Delete(t.Context(), guestbook); !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), "failed calling webhook") {
		t.Errorf("a deletion without its webhook: %v", err)
	}

	user, err := env.AddUser(envtest.User{Name: "jane", Groups: []string{"readers"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := clientOf(t, user.Config()).List(t.Context(), &corev1.SecretList{}); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `User "jane"`) {
		t.Errorf("jane lists secrets: %v", err)
	}

	service := &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
	service.Namespace, service.Name = "default", "web"
	if err := api.Create(t.Context(), service); err != nil || !strings.HasPrefix(service.Spec.ClusterIP, "10.9.0.") {
		t.Errorf("its IP is %q: %v", service.Spec.ClusterIP, err)
	}
	token := issued(t, kubernetes.NewForConfigOrDie(config))
	if !token.Status.Authenticated || token.Status.User.Username != "system:serviceaccount:default:robot" {
		t.Errorf("the token is %+v", token.Status)
	}

	for _, want := range []string{"--no-such-flag is not known", "--feature-gates: Some=true has no effect", "nothing.example.com/v1 is not served"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("it does not say %q: %s", want, said.String())
		}
	}
	if strings.Contains(said.String(), "api/all") {
		t.Errorf("it says %s", said.String())
	}
	if text, err := os.ReadFile(log); err != nil || !strings.Contains(string(text), `"guestbooks"`) {
		t.Errorf("the audit log, of %d bytes, has no guestbook: %v", len(text), err)
	}
}

// issued creates a token of a service account and has it reviewed.
func issued(t *testing.T, api *kubernetes.Clientset) *authenticationv1.TokenReview {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}
	_, err := api.CoreV1().ServiceAccounts("default").Create(t.Context(), account, metav1.CreateOptions{})
	request, err2 := api.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), "robot", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: request.Status.Token}}
	if review, err = api.AuthenticationV1().TokenReviews().Create(t.Context(), review, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return review
}

// TestWorkloads: controllers and nodes are off, as in upstream's envtest, unless the directory or the suite asks for them.
func TestWorkloads(t *testing.T) {
	for name, c := range map[string]struct {
		install, pass []string // flags of install, and of the suite
		on            bool
	}{
		"off":            {},
		"remembered":     {install: []string{"--keelson-controllers", "--keelson-nodes=2"}, on: true},
		"by the suite":   {pass: []string{"2"}, on: true},
		"off by a suite": {install: []string{"--keelson-controllers", "--keelson-nodes=2"}, pass: []string{"0"}},
	} {
		t.Run(name, func(t *testing.T) {
			env := &envtest.Environment{}
			for _, nodes := range c.pass {
				env.ControlPlane.GetAPIServer().Configure().Set("keelson-controllers", map[bool]string{true: "true", false: "false"}[c.on]).Set("keelson-nodes", nodes)
			}
			config := begin(t, installed(t, c.install...), env)
			api := clientOf(t, config)
			space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "space"}}
			labels := map[string]string{"app": "web"}
			web := &appsv1.Deployment{
				ObjectMeta: metav1.ObjectMeta{Namespace: "space", Name: "web"},
				Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
				}},
			}
			if err := errors.Join(api.Create(t.Context(), space), api.Create(t.Context(), web)); err != nil {
				t.Fatal(err)
			}
			var nodes corev1.NodeList
			if !c.on {
				if err := errors.Join(api.List(t.Context(), &nodes), api.Delete(t.Context(), space), api.Get(t.Context(), client.ObjectKeyFromObject(space), space)); err != nil ||
					len(nodes.Items) != 0 || space.Status.Phase != corev1.NamespaceTerminating {
					t.Errorf("%d nodes, the namespace is %s: %v", len(nodes.Items), space.Status.Phase, err)
				}
				return
			}
			await(t, "the deployment's pod runs", func() bool {
				return api.Get(t.Context(), client.ObjectKeyFromObject(web), web) == nil && web.Status.AvailableReplicas == 1
			})
			checkPods(t, kubernetes.NewForConfigOrDie(config), "space")
			if err := errors.Join(api.List(t.Context(), &nodes), api.Delete(t.Context(), space)); err != nil || len(nodes.Items) != 2 {
				t.Errorf("%d nodes: %v", len(nodes.Items), err)
			}
			await(t, "the namespace ends", func() bool {
				return apierrors.IsNotFound(api.Get(t.Context(), client.ObjectKeyFromObject(space), space))
			})
		})
	}
}

// checkPods asks for the logs of a namespace's pods, which are empty, and for what else their nodes serve.
func checkPods(t *testing.T, api kubernetes.Interface, namespace string) {
	t.Helper()
	pods, err := api.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(pods.Items) != 1 {
		t.Fatalf("%d pods: %v", len(pods.Items), err)
	}
	pod := &pods.Items[0]
	if text, err := api.CoreV1().Pods(namespace).GetLogs(pod.Name, &corev1.PodLogOptions{}).DoRaw(t.Context()); err != nil || len(text) > 0 {
		t.Errorf("the log is %q: %v", text, err)
	}
	text, err := api.CoreV1().RESTClient().Get().AbsPath("/api/v1/nodes", pod.Spec.NodeName, "proxy/metrics/resource").DoRaw(t.Context())
	if err != nil || !strings.Contains(string(text), `pod="`+pod.Name+`"`) {
		t.Errorf("metrics: %v\n%s", err, text)
	}
}
