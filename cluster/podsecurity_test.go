package cluster_test

import (
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	psaconfig "k8s.io/pod-security-admission/admission/api"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/podsecurity"
	"github.com/keelson-dev/keelson/cluster"
)

// warnings collects a client's warnings.
type warnings struct {
	mu    sync.Mutex
	texts []string
}

func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.texts = append(w.texts, text)
}

// take returns them, once.
func (w *warnings) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	texts := w.texts
	w.texts = nil
	return texts
}

func privileged(name string) *corev1.Pod {
	pod, yes := testPod(name), true
	pod.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: &yes}
	return pod
}

const notBaseline = `privileged (container "c" must not set securityContext.privileged=true)`

// TestPodSecurity: a namespace's labels reject pods, and warn about workloads and existing pods.
func TestPodSecurity(t *testing.T) {
	c := start(t, cluster.Options{Disable: []string{"scheduler"}})
	var w warnings
	config := c.Config()
	config.WarningHandler = &w
	cs, ctx := clientset(t, config), t.Context()
	label := func(labels map[string]string) error {
		ns, err := cs.CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		ns.Labels = labels
		_, err = cs.CoreV1().Namespaces().Update(ctx, ns, metav1.UpdateOptions{})
		return err
	}
	told := func(what string, want ...string) {
		t.Helper()
		if got := w.take(); !slices.Equal(got, want) {
			t.Errorf("%s: warned of %q, want %q", what, got, want)
		}
	}
	pods := cs.CoreV1().Pods("default")
	if _, err := pods.Create(ctx, privileged("before"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	told("a privileged namespace")
	if err := label(map[string]string{"pod-security.kubernetes.io/enforce": "baseline"}); err != nil {
		t.Fatal(err)
	}
	told("a stricter level",
		`existing pods in namespace "default" violate the new PodSecurity enforce level "baseline:latest"`, `before: privileged`)
	_, err := pods.Create(ctx, privileged("bad"), metav1.CreateOptions{})
	if want := `pods "bad" is forbidden: violates PodSecurity "baseline:latest": ` + notBaseline; !apierrors.IsForbidden(err) || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	generated := privileged("")
	generated.GenerateName = "bad-"
	if _, err := pods.Create(ctx, generated, metav1.CreateOptions{}); err == nil || !strings.HasPrefix(err.Error(), `pods "bad-`) {
		t.Errorf("a generated name: %v", err)
	}
	if _, err := pods.Create(ctx, testPod("good"), metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
	told("pods")
	d := deploymentOf("web", 0)
	d.Spec.Template.Spec.Containers[0].SecurityContext = privileged("").Spec.Containers[0].SecurityContext
	_, err = cs.AppsV1().Deployments("default").Create(ctx, d, metav1.CreateOptions{})
	if err != nil {
		t.Error(err)
	}
	told("a workload", `would violate PodSecurity "baseline:latest": `+strings.ReplaceAll(notBaseline, `"c"`, `"`+d.Spec.Template.Spec.Containers[0].Name+`"`))
	err = label(map[string]string{"pod-security.kubernetes.io/enforce": "strict", "pod-security.kubernetes.io/warn-version": "1.2"})
	want := `Namespace "default" is invalid: [metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: "strict": must be one of privileged, baseline, restricted, ` +
		`metadata.labels[pod-security.kubernetes.io/warn-version]: Invalid value: "1.2": must be "latest" or "v1.x"]`
	if !apierrors.IsInvalid(err) || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// unlabelled provides namespaces of any name without labels and pods.
type unlabelled struct{}

func (unlabelled) Get(_, name string) (*corev1.Namespace, bool) {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, true
}

func (unlabelled) List(string) []*corev1.Pod { return nil }

// TestPodSecurityDefaults: a plugin with its own defaults replaces the built-in one.
func TestPodSecurityDefaults(t *testing.T) {
	plugin, err := podsecurity.New(unlabelled{}, unlabelled{}, podsecurity.Options{Defaults: psaconfig.PodSecurityDefaults{Enforce: "baseline"}})
	if err != nil {
		t.Fatal(err)
	}
	c := start(t, cluster.Options{Admission: cluster.WithStages(cluster.DefaultAdmission(), cluster.Plugins(plugin)...), Disable: []string{"scheduler"}})
	pods := clientset(t, c.Config()).CoreV1().Pods("default")
	if _, err := pods.Create(t.Context(), privileged("bad"), metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("the default: %v", err)
	}
	// The built-in one would reject this because of the namespace's label, which this one does not know.
	label := []byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`)
	cs := clientset(t, c.Config())
	if _, err := cs.CoreV1().Namespaces().Patch(t.Context(), "default", types.MergePatchType, label, metav1.PatchOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := pods.Create(t.Context(), testPod("good"), metav1.CreateOptions{}); err != nil {
		t.Errorf("the built-in plugin is still there: %v", err)
	}
}

// TestDisablePlugin: a built-in plugin can be left out.
func TestDisablePlugin(t *testing.T) {
	c := start(t, cluster.Options{Disable: []string{"PodSecurity", "scheduler"}})
	cs := clientset(t, c.Config())
	label := []byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`)
	if _, err := cs.CoreV1().Namespaces().Patch(t.Context(), "default", types.MergePatchType, label, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := cs.CoreV1().Pods("default").Create(t.Context(), privileged("p"), metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
	plugins := cluster.StageNames(cluster.DefaultAdmission())
	if !slices.Equal(plugins, slices.DeleteFunc(admission.UpstreamOrder(), func(name string) bool { return !slices.Contains(plugins, name) })) {
		t.Errorf("plugins are not in upstream's order: %v", plugins)
	}
}
