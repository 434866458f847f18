package admissionconfig_test

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/cluster/admissionconfig"
)

const header = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\n"

// write writes files below a directory and returns the first's path.
func write(t testing.TB, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i < len(files); i += 2 {
		if err := os.WriteFile(filepath.Join(dir, files[i]), []byte(files[i+1]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, files[0])
}

const all = header + `plugins:
- name: PodSecurity
  configuration:
    apiVersion: pod-security.admission.config.k8s.io/v1
    kind: PodSecurityConfiguration
    defaults: {enforce: baseline, enforce-version: latest}
    exemptions: {namespaces: [kube-system]}
- name: PodNodeSelector
  path: selectors.yaml
- name: PodTolerationRestriction
  configuration:
    apiVersion: podtolerationrestriction.admission.k8s.io/v1alpha1
    kind: Configuration
    default: [{key: batch, operator: Exists, effect: NoSchedule}]
- name: EventRateLimit
  configuration:
    apiVersion: eventratelimit.admission.k8s.io/v1alpha1
    kind: Configuration
    limits: [{type: Namespace, qps: 1, burst: 1}]
`

// start starts a cluster with these stages.
func start(t *testing.T, stages []cluster.AdmissionStage) kubernetes.Interface {
	t.Helper()
	c, err := cluster.Start(t.Context(), cluster.Options{Disable: []string{"scheduler"}, Admission: stages})
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
	return api
}

// TestConfigured: each plugin does in a cluster what the file says.
func TestConfigured(t *testing.T) {
	config, err := admissionconfig.Open(write(t, "admission.yaml", all, "selectors.yaml", "podNodeSelectorPluginConfig:\n  clusterDefaultNodeSelector: pool=blue\n  default: pool=blue\n"))
	if err != nil {
		t.Fatal(err)
	}
	more := slices.DeleteFunc(admissionconfig.Optional(), func(s cluster.AdmissionStage) bool {
		return !slices.Contains(admissionconfig.Names(), s.Name) || s.Name == "ImagePolicyWebhook" || s.Name == "InitialResources"
	})
	api := start(t, config.Apply(append(cluster.DefaultAdmission(), more...)))
	pod := func(name string, change func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "web"}}}}
		change(p)
		return p
	}
	got, err := api.CoreV1().Pods("default").Create(t.Context(), pod("p", func(*corev1.Pod) {}), metav1.CreateOptions{})
	if err != nil || got.Spec.NodeSelector["pool"] != "blue" || !slices.ContainsFunc(got.Spec.Tolerations, func(t corev1.Toleration) bool { return t.Key == "batch" }) {
		t.Errorf("got %v, %v", got.Spec, err)
	}
	host := func(p *corev1.Pod) { p.Spec.HostNetwork = true }
	_, err = api.CoreV1().Pods("default").Create(t.Context(), pod("host", host), metav1.CreateOptions{})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `violates PodSecurity "baseline:latest"`) {
		t.Errorf("a pod on the host's network: %v", err)
	}
	if _, err := api.CoreV1().Pods("kube-system").Create(t.Context(), pod("host", host), metav1.CreateOptions{}); err != nil {
		t.Errorf("in an exempt namespace: %v", err)
	}
	_, err = api.CoreV1().Pods("default").Create(t.Context(), pod("red", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"size": "s"} }), metav1.CreateOptions{})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "whitelist") {
		t.Errorf("a label that the namespace may not use: %v", err)
	}
	event := func(name string) *corev1.Event {
		return &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: name}, InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "kube-node-lease", Name: "p"}, Reason: "R", Type: "Normal"}
	}
	if _, err := api.CoreV1().Events("kube-node-lease").Create(t.Context(), event("a"), metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := api.CoreV1().Events("kube-node-lease").Create(t.Context(), event("b"), metav1.CreateOptions{}); !apierrors.IsTooManyRequests(err) {
		t.Errorf("a second event at once: %v", err)
	}
}

// TestApply: a file does not enable plugins, and what it does not name stays.
func TestApply(t *testing.T) {
	config, err := admissionconfig.Open(write(t, "admission.yaml", all, "selectors.yaml", "podNodeSelectorPluginConfig: {}\n"))
	if err != nil {
		t.Fatal(err)
	}
	stages := cluster.DefaultAdmission()
	if got := cluster.StageNames(config.Apply(stages)); !slices.Equal(got, cluster.StageNames(stages)) {
		t.Errorf("got %v", got)
	}
	var none *admissionconfig.Config
	if got := cluster.StageNames(none.Apply(stages)); !slices.Equal(got, cluster.StageNames(stages)) {
		t.Errorf("without a file: %v", got)
	}
	if _, err := stage(t, "ImagePolicyWebhook").New(cluster.ServerParts{}); err == nil || err.Error() != "ImagePolicyWebhook: no config specified" {
		t.Errorf("a policy without a backend: %v", err)
	}
	if _, err := stage(t, "InitialResources").New(cluster.ServerParts{}); err == nil || err.Error() != "InitialResources: no config specified" {
		t.Errorf("estimates without a history: %v", err)
	}
	unlimited := admissionconfig.Optional()
	if _, err := unlimited[len(unlimited)-1].New(cluster.ServerParts{}); err == nil || !strings.Contains(err.Error(), "limits: Invalid value: null: must not be empty") {
		t.Errorf("limits without limits: %v", err)
	}
}

func stage(t *testing.T, name string) cluster.AdmissionStage {
	t.Helper()
	all := admissionconfig.Optional()
	i := slices.IndexFunc(all, func(s cluster.AdmissionStage) bool { return s.Name == name })
	if i < 0 {
		t.Fatalf("%s is not optional", name)
	}
	return all[i]
}

// TestImagePolicy: a backend over TLS, which a kubeconfig beside the file leads to, decides about images.
func TestInitialResources(t *testing.T) {
	history := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/prometheus/api/v1/query_range" || r.Header.Get("Authorization") != "Bearer key" {
			http.Error(w, r.URL.String(), http.StatusUnauthorized)
			return
		}
		value := "2097152"
		if strings.Contains(r.FormValue("query"), "cpu") {
			value = "125"
		}
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":"matrix","result":[{"values":[%s[1,%q]]}]}}`, strings.Repeat(`[1,"0"],`, 3), value)
	}))
	defer history.Close()
	ca := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: history.Certificate().Raw}))
	config, err := admissionconfig.Open(write(t, "admission.yaml", header+"plugins:\n- name: InitialResources\n  configuration: {initialResources: {prometheusConfigFile: history.conf, percentile: 100}}\n",
		"history.conf", `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}], users: [{name: u, user: {token: key}}],
			clusters: [{name: c, cluster: {server: "`+history.URL+`/prometheus", certificate-authority-data: `+ca+`}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	api := start(t, config.Apply(append(cluster.DefaultAdmission(), stage(t, "InitialResources"))))
	limits := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Name: "limits"}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
		Type: corev1.LimitTypeContainer, DefaultRequest: corev1.ResourceList{"cpu": resource.MustParse("1"), "ephemeral-storage": resource.MustParse("1Gi")},
	}}}}
	if _, err := api.CoreV1().LimitRanges("default").Create(t.Context(), limits, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "web"}}}}
	got, err := api.CoreV1().Pods("default").Create(t.Context(), p, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	requests := got.Spec.Containers[0].Resources.Requests
	if requests.Cpu().String() != "125m" || requests.Memory().Value() != 2<<20 || requests.StorageEphemeral().String() != "1Gi" {
		t.Errorf("requests %v: what was used goes before defaults", requests)
	}
}

func TestImagePolicy(t *testing.T) {
	backend := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, `{"apiVersion":"imagepolicy.k8s.io/v1alpha1","kind":"ImageReview","status":{"allowed":%t,"reason":"too old"}}`, strings.Contains(string(body), `"web"`))
	}))
	defer backend.Close()
	ca := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: backend.Certificate().Raw}))
	config, err := admissionconfig.Open(write(t, "admission.yaml", header+"plugins:\n- name: ImagePolicyWebhook\n  path: images.yaml\n",
		"images.yaml", "imagePolicy: {kubeConfigFile: backend.conf, allowTTL: 1, denyTTL: -1, retryBackoff: 10, defaultAllow: false}\n",
		"backend.conf", `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c}}],
			clusters: [{name: c, cluster: {server: "`+backend.URL+`/policy", certificate-authority-data: `+ca+`}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	api := start(t, config.Apply(append(cluster.DefaultAdmission(), stage(t, "ImagePolicyWebhook"))))
	for image, want := range map[string]string{"web": "", "db": `pods "db" is forbidden: image policy webhook backend denied one or more images: too old`} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: image}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: image}}}}
		if _, err := api.CoreV1().Pods("default").Create(t.Context(), p, metav1.CreateOptions{}); (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("%s: %v", image, err)
		}
	}
}

func TestBadFiles(t *testing.T) {
	entry := func(name, configuration string) string {
		return header + "plugins:\n- name: " + name + "\n  configuration:\n    " + strings.ReplaceAll(configuration, "\n", "\n    ") + "\n"
	}
	const limits = "apiVersion: eventratelimit.admission.k8s.io/v1alpha1\nkind: Configuration\n"
	for name, c := range map[string]struct {
		text string
		line int // 0 where there is none
		want string
	}{
		"no YAML":           {"a: [", 0, "yaml"},
		"another version":   {"kind: AdmissionConfiguration\napiVersion: v1\n", 2, `apiVersion "v1" and kind "AdmissionConfiguration": want apiVersion apiserver.config.k8s.io/v1`},
		"another kind":      {"apiVersion: apiserver.config.k8s.io/v1\nkind: X\n", 1, `kind "X"`},
		"an unknown field":  {header + "plugins: []\nplugin: []\n", 4, `unknown field "plugin"`},
		"a field of plugin": {header + "plugins:\n- name: PodSecurity\n  file: x\n", 5, `unknown field "plugins[0].file"`},
		"a field twice":     {header + "plugins: []\nplugins: []\n", 0, `"plugins" already set`},
		"another type":      {header + "plugins: 1\n", 3, "plugins"},
		"an unknown plugin": {entry("NamespaceLifecycle", "{}"), 4, `plugins[0].name: "NamespaceLifecycle" takes no configuration: choose from EventRateLimit, ImagePolicyWebhook, InitialResources, PodNodeSelector, PodSecurity, PodTolerationRestriction`},
		"a plugin twice": {entry("PodNodeSelector", "podNodeSelectorPluginConfig: {}") + "- name: PodNodeSelector\n  configuration: {podNodeSelectorPluginConfig: {}}\n", 7,
			"plugins[1].name: PodNodeSelector is configured twice"},
		"nothing to go by":            {header + "plugins:\n- name: PodSecurity\n", 4, "plugins[0]: one of path and configuration is required"},
		"both":                        {header + "plugins:\n- name: PodSecurity\n  path: x\n  configuration: {}\n", 4, "plugins[0]: one of path and configuration is required"},
		"a file that there is not":    {header + "plugins:\n- name: PodSecurity\n  path: x.yaml\n", 0, "no such file"},
		"a bad level":                 {entry("PodSecurity", "apiVersion: pod-security.admission.config.k8s.io/v1\nkind: PodSecurityConfiguration\ndefaults: {enforce: none}"), 8, "enforce"},
		"a version of pod security":   {entry("PodSecurity", "apiVersion: pod-security.admission.config.k8s.io/v2\nkind: PodSecurityConfiguration"), 6, "want apiVersion pod-security.admission.config.k8s.io/v1"},
		"a bad selector":              {entry("PodNodeSelector", "podNodeSelectorPluginConfig: {clusterDefaultNodeSelector: x}"), 6, "default node selector: invalid selector: [x]"},
		"a field of node selectors":   {entry("PodNodeSelector", "podNodeSelectorPluginConfig: {}\nmore: {}"), 7, `unknown field "more"`},
		"a toleration":                {entry("PodTolerationRestriction", "apiVersion: podtolerationrestriction.admission.k8s.io/v1alpha1\nkind: Configuration\nwhitelist:\n- key: a\n  operator: x"), 10, "whitelist[0].operator"},
		"limits without rates":        {entry("EventRateLimit", limits+"limits:\n- type: Server\n  burst: 1\n  qps: 0"), 11, "limits[0].qps: Invalid value: 0: must be positive"},
		"a limit with another field":  {entry("EventRateLimit", limits+"limits:\n- type: Server\n  rate: 1"), 10, `unknown field "limits[0].rate"`},
		"no limits":                   {entry("EventRateLimit", limits+"limits: []"), 8, "limits: Invalid value: []: must not be empty"},
		"images without a backend":    {entry("ImagePolicyWebhook", "imagePolicy:\n  defaultAllow: true"), 6, "imagePolicy.kubeConfigFile: is required"},
		"a backend that is not there": {entry("ImagePolicyWebhook", "imagePolicy:\n  kubeConfigFile: none"), 7, "imagePolicy.kubeConfigFile: "},
		"answers kept for too long":   {entry("ImagePolicyWebhook", "imagePolicy:\n  kubeConfigFile: x\n  allowTTL: 1801"), 8, "imagePolicy.allowTTL: valid value is between 1s and 30m0s, got 30m1s"},
		"denials kept for too short":  {entry("ImagePolicyWebhook", "imagePolicy:\n  denyTTL: -2"), 7, "imagePolicy.denyTTL: valid value is between 1s and 30m0s, got -2s"},
		"a pause that is too long":    {entry("ImagePolicyWebhook", "imagePolicy:\n  retryBackoff: 300001"), 7, "imagePolicy.retryBackoff: valid value is between 1ns and 5m0s, got 5m0.001s"},
		"estimates without a history": {entry("InitialResources", "initialResources: {}"), 6, "initialResources.prometheusConfigFile: is required"},
		"a history that is not there": {entry("InitialResources", "initialResources:\n  prometheusConfigFile: none"), 7, "initialResources.prometheusConfigFile: "},
		"a percentile that is none":   {entry("InitialResources", "initialResources:\n  percentile: 101"), 7, "initialResources.percentile: the percentile must be from 1 to 100, not 101"},
		"a configuration that is not": {entry("EventRateLimit", "- 1"), 5, "cannot unmarshal array"},
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, "admission.yaml", c.text)
			_, err := admissionconfig.Open(path)
			var wrong *admissionconfig.Error
			if !errors.As(err, &wrong) || wrong.Line != c.line || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want line %d and %s", err, c.line, c.want)
			}
			place := filepath.Join(filepath.Dir(path), "admission.yaml")
			if c.line > 0 {
				place += fmt.Sprintf(":%d", c.line)
			}
			if name != "a file that there is not" && !strings.HasPrefix(err.Error(), place+": ") {
				t.Errorf("got %v, want it to begin with %s", err, place)
			}
		})
	}
	// An error in a file of its own is told of that file.
	path := write(t, "admission.yaml", header+"plugins:\n- name: PodNodeSelector\n  path: own.yaml\n", "own.yaml", "\n\nother: 1\n")
	if _, err := admissionconfig.Open(path); err == nil || !strings.HasPrefix(err.Error(), filepath.Join(filepath.Dir(path), "own.yaml")+":3: ") {
		t.Errorf("got %v", err)
	}
	if _, err := admissionconfig.Open(path + "x"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// FuzzOpen: no file makes a panic, and every error names the file.
func FuzzOpen(f *testing.F) {
	f.Add(all)
	f.Add(header + "plugins: [{name: PodSecurity, configuration: {defaults: 1}}]")
	f.Fuzz(func(t *testing.T, text string) {
		path := write(t, "admission.yaml", text)
		if _, err := admissionconfig.Open(path); err != nil && !strings.Contains(err.Error(), filepath.Dir(path)) && !strings.Contains(text, "path") {
			t.Errorf("%q: %v", text, err)
		}
	})
}

func Example() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "admission.yaml")
	text := `{"apiVersion":"apiserver.config.k8s.io/v1","kind":"AdmissionConfiguration","plugins":[{"name":"PodSecurity","configuration":{
		"apiVersion":"pod-security.admission.config.k8s.io/v1","kind":"PodSecurityConfiguration","defaults":{"enforce":"restricted"}}}]}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	config, err := admissionconfig.Open(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	c, err := cluster.Start(context.Background(), cluster.Options{Admission: config.Apply(cluster.DefaultAdmission())})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("every namespace is restricted:", c.Close())
	// Output: every namespace is restricted: <nil>
}
