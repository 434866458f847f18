package envtest_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/envtest"
)

// TestBubbles: a program may have several bubbles with an Environment, and none outside of them.
func TestBubbles(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), program, "-test.run", "^(TestInProcess|TestPolicies|TestInProcessWebhooks)$", "-test.v").CombinedOutput()
	for _, name := range []string{"TestInProcess", "TestPolicies", "TestInProcessWebhooks"} {
		if err != nil || !strings.Contains(string(out), "--- PASS: "+name+" ") {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
	}
}

const webhookFile = `
apiVersion: v1
kind: ConfigMap
metadata: {name: not-a-webhook}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: label}
webhooks:
- name: label.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  clientConfig: {service: {namespace: system, name: webhook, path: /label}}
  rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: check}
webhooks:
- name: check.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  clientConfig: {service: {namespace: system, name: webhook, path: /check}}
  rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]
`

// TestInProcessWebhooks: webhooks of files are installed in process as over a network.
func TestInProcessWebhooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		for name, text := range map[string]string{"webhooks.yaml": webhookFile, "notes.txt": "kind: {"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var review admissionv1.AdmissionReview
			if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true, Warnings: []string{r.URL.Path}}
			if r.URL.Path == "/label" {
				review.Response.PatchType, review.Response.Patch = new(admissionv1.PatchTypeJSONPatch), []byte(`[{"op":"add","path":"/metadata/labels","value":{"by":"hook"}}]`)
			} else {
				review.Response.Allowed = review.Request.Name != "bad"
			}
			_ = json.NewEncoder(w).Encode(&review)
		})
		env := &envtest.Environment{InProcess: true, WebhookHandler: handler, WebhookInstallOptions: envtest.WebhookInstallOptions{
			Paths: []string{dir, filepath.Join(dir, "missing")}, IgnoreErrorIfPathMissing: true,
		}}
		api := start(t, env)
		made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "good"}}
		if err := api.Create(t.Context(), made); err != nil || made.Labels["by"] != "hook" {
			t.Errorf("%v, labels %v", err, made.Labels)
		}
		if err := api.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "bad"}}); err == nil || !strings.Contains(err.Error(), "check.example.com") {
			t.Errorf("the validating webhook: %v", err)
		}
		o := env.WebhookInstallOptions
		pair, err := tls.LoadX509KeyPair(filepath.Join(o.LocalServingCertDir, "tls.crt"), filepath.Join(o.LocalServingCertDir, "tls.key"))
		if err != nil {
			t.Fatal(err)
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(o.LocalServingCAData) {
			t.Error("there is no authority")
		}
		for _, name := range []string{"localhost", o.LocalServingHost} {
			if _, err := pair.Leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: roots}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if url := o.MutatingWebhooks[0].Webhooks[0].ClientConfig.URL; url == nil || !strings.HasPrefix(*url, "https://127.0.0.1:") || o.LocalServingPort == 0 {
			t.Errorf("the webhook is at %v", url)
		}
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(o.LocalServingCertDir); !os.IsNotExist(err) {
			t.Errorf("the certificate is left behind: %v", err)
		}
	})
}

// TestInProcessFiles: files of webhooks that cannot be used are errors that name them.
func TestInProcessFiles(t *testing.T) {
	for text, want := range map[string]string{
		"kind: {": "hooks.yaml: ",
		"apiVersion: admissionregistration.k8s.io/v1beta1\nkind: MutatingWebhookConfiguration\nmetadata: {name: old}": "only v1 is supported right now for MutatingWebhookConfiguration (name: old)",
		"": "no such file or directory",
	} {
		synctest.Test(t, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "hooks.yaml")
			if text == "" {
				file += ".missing"
			} else if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			env := &envtest.Environment{InProcess: true, WebhookInstallOptions: envtest.WebhookInstallOptions{Paths: []string{file}}}
			if _, err := env.Start(); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v, want %s", text, err, want)
			}
		})
	}
}
