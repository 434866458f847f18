package apiserver_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	appsv1 "k8s.io/client-go/applyconfigurations/apps/v1"
	acorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	ametav1 "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/registry"
)

const applyYAML = "application/apply-patch+yaml"

func clients(t *testing.T, config *rest.Config) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// owners tells who owns what, an entry a line.
func owners(entries []metav1.ManagedFieldsEntry) string {
	var lines []string
	for _, e := range entries {
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s %s %s", e.Manager, e.Operation, e.Subresource))+" "+e.FieldsV1.GetRawString())
	}
	return strings.Join(lines, "\n")
}

// TestTypedApply: two controllers and a user share a Deployment, through client-go's typed client.
func TestTypedApply(t *testing.T) {
	ctx := t.Context()
	deployments := clients(t, serve(t)).AppsV1().Deployments("default")
	template := func(containers ...*acorev1.ContainerApplyConfiguration) *appsv1.DeploymentSpecApplyConfiguration {
		return appsv1.DeploymentSpec().WithSelector(ametav1.LabelSelector().WithMatchLabels(map[string]string{"app": "web"})).
			WithTemplate(acorev1.PodTemplateSpec().WithLabels(map[string]string{"app": "web"}).WithSpec(acorev1.PodSpec().WithContainers(containers...)))
	}
	web := func() *acorev1.ContainerApplyConfiguration {
		return acorev1.Container().WithName("web").WithImage("web:1")
	}
	user := appsv1.Deployment("web", "default").WithSpec(template(web()).WithReplicas(3))
	created, err := deployments.Apply(ctx, user, metav1.ApplyOptions{FieldManager: "user"})
	if err != nil {
		t.Fatal(err)
	}
	again, err := deployments.Apply(ctx, user, metav1.ApplyOptions{FieldManager: "user"})
	if err != nil || again.ResourceVersion != created.ResourceVersion {
		t.Fatalf("the same again: version %s after %s, %v", again.ResourceVersion, created.ResourceVersion, err)
	}
	mesh := appsv1.Deployment("web", "default").WithSpec(appsv1.DeploymentSpec().WithTemplate(acorev1.PodTemplateSpec().WithSpec(acorev1.PodSpec().
		WithContainers(acorev1.Container().WithName("proxy").WithImage("proxy:1")))))
	if _, err := deployments.Apply(ctx, mesh, metav1.ApplyOptions{FieldManager: "mesh"}); err != nil {
		t.Fatal(err)
	}
	scaler := appsv1.Deployment("web", "default").WithSpec(appsv1.DeploymentSpec().WithReplicas(5))
	_, err = deployments.Apply(ctx, scaler, metav1.ApplyOptions{FieldManager: "scaler"})
	if !apierrors.IsConflict(err) || err.Error() != `Apply failed with 1 conflict: conflict with "user": .spec.replicas` {
		t.Fatalf("a conflict: %v", err)
	}
	if _, err = deployments.Apply(ctx, scaler, metav1.ApplyOptions{FieldManager: "scaler", Force: true}); err != nil {
		t.Fatal(err)
	}
	// The user gives the replicas up, as the documentation of server-side apply advises.
	shared, err := deployments.Apply(ctx, appsv1.Deployment("web", "default").WithSpec(template(web().WithImage("web:2"))), metav1.ApplyOptions{FieldManager: "user"})
	if err != nil {
		t.Fatal(err)
	}
	if got := shared.Spec.Template.Spec.Containers; *shared.Spec.Replicas != 5 || len(got) != 2 || got[0].Image != "web:2" || got[1].Image != "proxy:1" {
		t.Errorf("shared: %d replicas of %+v", *shared.Spec.Replicas, got)
	}
	own, err := appsv1.ExtractDeployment(shared, "mesh")
	if err != nil || len(own.Spec.Template.Spec.Containers) != 1 || *own.Spec.Template.Spec.Containers[0].Name != "proxy" || own.Spec.Replicas != nil {
		t.Errorf("what the mesh owns: %+v, %v", own.Spec, err)
	}
	const want = `mesh Apply {"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"proxy\"}":{".":{},"f:image":{},"f:name":{}}}}}}}
scaler Apply {"f:spec":{"f:replicas":{}}}
user Apply {"f:spec":{"f:selector":{},"f:template":{"f:metadata":{"f:labels":{"f:app":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{".":{},"f:image":{},"f:name":{}}}}}}}`
	if got := strings.Split(owners(shared.ManagedFields), "\n"); strings.Join(slices.Sorted(slices.Values(got)), "\n") != want {
		t.Errorf("owners:\n%s, want\n%s", strings.Join(got, "\n"), want)
	}
}

// TestNothingToWrite: what would change nothing but times is not written, however it comes.
func TestNothingToWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := serve(t)
		client := clients(t, config)
		const path = "/apis/apps/v1/namespaces/default/deployments/d"
		const document = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d","annotations":{"a":"b"}},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"},"annotations":{}},
			"spec":{"containers":[{"name":"c","image":"i","resources":{"requests":{"cpu":"1000m"}},"livenessProbe":{"httpGet":{"port":80}}}],"tolerations":[{"key":"k","operator":"Exists"}]}}}}`
		apply := func() string {
			t.Helper()
			if code, _, body := do(t, config, "PATCH", path+"?fieldManager=one", applyYAML, document); code >= 300 {
				t.Fatal(code, body)
			}
			d, err := client.AppsV1().Deployments("default").Get(t.Context(), "d", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return d.ResourceVersion + owners(d.ManagedFields) + fmt.Sprint(d.ManagedFields[0].Time)
		}
		first := apply()
		time.Sleep(time.Minute)
		if again := apply(); again != first {
			t.Errorf("applied again:\n%s\n%s", first, again)
		}
		code, _, body := do(t, config, "GET", path, "", "")
		if code != http.StatusOK {
			t.Fatal(code, body)
		}
		time.Sleep(time.Minute)
		for _, method := range []string{"PUT", "PATCH"} {
			contentType := map[string]string{"PUT": "application/json", "PATCH": "application/merge-patch+json"}[method]
			if code, _, answer := do(t, config, method, path+"?fieldManager=other", contentType, body); code != http.StatusOK || answer != body {
				t.Errorf("%s of what is there: %d\n%s\n%s", method, code, answer, body)
			}
		}
	})
}

// TestConcurrentAppliers: whoever applies at the same time, nobody's field or ownership is lost.
func TestConcurrentAppliers(t *testing.T) {
	ctx, client := t.Context(), clients(t, serve(t))
	const appliers, rounds = 8, 10
	var wait sync.WaitGroup
	var mu sync.Mutex
	created := 0
	for i := range appliers {
		wait.Go(func() {
			me := fmt.Sprintf("applier-%d", i)
			for round := range rounds {
				config := acorev1.ConfigMap("shared", "default").WithData(map[string]string{me: fmt.Sprint(round)}).WithLabels(map[string]string{"all": "x"})
				m, err := client.CoreV1().ConfigMaps("default").Apply(ctx, config, metav1.ApplyOptions{FieldManager: me})
				if err != nil {
					t.Error(err)
					return
				}
				if len(m.ManagedFields) == 1 && round == 0 {
					mu.Lock()
					created++
					mu.Unlock()
				}
			}
		})
		wait.Go(func() { // and updates in between
			me := fmt.Sprintf("updater-%d", i)
			for range rounds {
				err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
					m, err := client.CoreV1().ConfigMaps("default").Get(ctx, "shared", metav1.GetOptions{})
					if apierrors.IsNotFound(err) {
						return nil
					}
					if err != nil {
						return err
					}
					if m.Annotations == nil {
						m.Annotations = map[string]string{}
					}
					m.Annotations[me] += "x"
					_, err = client.CoreV1().ConfigMaps("default").Update(ctx, m, metav1.UpdateOptions{FieldManager: me})
					return err
				})
				if err != nil && !apierrors.IsConflict(err) {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	m, err := client.CoreV1().ConfigMaps("default").Get(ctx, "shared", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if created > 1 {
		t.Errorf("%d appliers were told to be the only owner at first", created)
	}
	for i := range appliers {
		me := fmt.Sprintf("applier-%d", i)
		want := fmt.Sprintf(`%s Apply {"f:data":{"f:%s":{}},"f:metadata":{"f:labels":{"f:all":{}}}}`, me, me)
		if !strings.Contains(owners(m.ManagedFields), want) || m.Data[me] != fmt.Sprint(rounds-1) {
			t.Errorf("%s lost something: %q\n%s", me, m.Data[me], owners(m.ManagedFields))
		}
		if m.Annotations[fmt.Sprintf("updater-%d", i)] != "" && !strings.Contains(owners(m.ManagedFields), fmt.Sprintf(`"f:updater-%d":{}`, i)) {
			t.Errorf("updater-%d lost its annotation:\n%s", i, owners(m.ManagedFields))
		}
	}
}

// TestManyUpdaters: the oldest entries of updates become one.
func TestManyUpdaters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, client := t.Context(), clients(t, serve(t))
		maps := client.CoreV1().ConfigMaps("default")
		if _, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m"}}, metav1.CreateOptions{FieldManager: "creator"}); err != nil {
			t.Fatal(err)
		}
		if _, err := maps.Apply(ctx, acorev1.ConfigMap("m", "default").WithData(map[string]string{"applied": ""}), metav1.ApplyOptions{FieldManager: "applier"}); err != nil {
			t.Fatal(err)
		}
		var m *corev1.ConfigMap
		for i := range 20 {
			time.Sleep(time.Second)
			var err error
			patch := fmt.Sprintf(`{"data":{"k%02d":""}}`, i)
			if m, err = maps.Patch(ctx, "m", types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: fmt.Sprintf("u%02d", i)}); err != nil {
				t.Fatal(err)
			}
		}
		lines := strings.Split(owners(m.ManagedFields), "\n")
		if len(lines) != 11 || lines[0] != `applier Apply {"f:data":{"f:applied":{}}}` || !strings.HasPrefix(lines[1], `ancient-changes Update {"f:data":{"f:k00":{},`) || !strings.HasPrefix(lines[10], "u19 ") {
			t.Errorf("owners:\n%s", strings.Join(lines, "\n"))
		}
	})
}

// TestDynamicApply: an unstructured client applies, forgets, and applies to what nobody is known
// to own.
func TestDynamicApply(t *testing.T) {
	client, err := dynamic.NewForConfig(serve(t))
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	services := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "services"}).Namespace("default")
	service := func(ports ...any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": "s"},
			"spec": map[string]any{"clusterIP": "None", "ports": ports},
		}}
	}
	port := func(name string, n int64) map[string]any { return map[string]any{"name": name, "port": n} }
	if _, err := services.Apply(ctx, "s", service(port("a", 80), port("b", 443)), metav1.ApplyOptions{FieldManager: "one"}); err != nil {
		t.Fatal(err)
	}
	if _, err := services.Apply(ctx, "s", service(port("c", 53)), metav1.ApplyOptions{FieldManager: "two"}); err != nil {
		t.Fatal(err)
	}
	got, err := services.Apply(ctx, "s", service(port("b", 443)), metav1.ApplyOptions{FieldManager: "one"})
	if err != nil {
		t.Fatal(err)
	}
	names := func(u *unstructured.Unstructured) (names []string) {
		ports, _, _ := unstructured.NestedSlice(u.Object, "spec", "ports")
		for _, p := range ports {
			names = append(names, p.(map[string]any)["name"].(string))
		}
		return names
	}
	if fmt.Sprint(names(got)) != "[b c]" {
		t.Errorf("ports %v", names(got))
	}
	if _, err := services.Patch(ctx, "s", types.MergePatchType, []byte(`{"metadata":{"managedFields":[{}]}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	got, err = services.Apply(ctx, "s", service(port("d", 22)), metav1.ApplyOptions{FieldManager: "one"})
	if err != nil {
		t.Fatal(err)
	}
	if who := owners(got.GetManagedFields()); fmt.Sprint(names(got)) != "[b c d]" || !strings.Contains(who, "before-first-apply Update") {
		t.Errorf("ports %v, owners\n%s", names(got), who)
	}
}

// spoiler makes nonsense of managed fields, as a webhook that does not know them may.
type spoiler struct{ entries []metav1.ManagedFieldsEntry }

func (spoiler) Name() string                     { return "Spoiler" }
func (spoiler) Handles(admission.Operation) bool { return true }

func (s spoiler) Admit(_ context.Context, q *admission.Request) error {
	if obj, ok := q.Object.(registry.Object); ok {
		obj.SetManagedFields(s.entries)
	}
	return nil
}

func TestAdmissionSpoilsOwners(t *testing.T) {
	const path = "/api/v1/namespaces/default/configmaps"
	for name, test := range map[string]struct {
		entries []metav1.ManagedFieldsEntry
		warning string
		want    string
	}{
		"nonsense": {[]metav1.ManagedFieldsEntry{{Manager: "x"}}, "299 - \".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated mutating admission controller; please fix your requests: operation must be `Apply` or `Update`\"", `me Update {"f:data":{".":{},"f:k":{}}}`},
		"removed":  {nil, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			config := serveWith(t, apiserver.Options{Admission: admission.Chain{spoiler{test.entries}}})
			code, header, body := do(t, config, "POST", path+"?fieldManager=me", "application/json", `{"metadata":{"name":"m"},"data":{"k":"v"}}`)
			if code != http.StatusCreated || header.Get("Warning") != test.warning {
				t.Errorf("%d %q %s", code, header.Get("Warning"), body)
			}
			m, err := clients(t, config).CoreV1().ConfigMaps("default").Get(t.Context(), "m", metav1.GetOptions{})
			if err != nil || owners(m.ManagedFields) != test.want {
				t.Errorf("%s, %v", owners(m.ManagedFields), err)
			}
		})
	}
}

// TestApplyNotYAML: Kubernetes 1.37 says otherwise than 1.36, whose answers are recorded.
func TestApplyNotYAML(t *testing.T) {
	config := serve(t)
	const path = "/api/v1/namespaces/default/configmaps/m?fieldManager=me"
	for body, want := range map[string]string{
		"\t:":           "error encoding patch: ",
		"[1]":           "error decoding patch: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array into Go value of type map[string]interface {}",
		"{a: [":         "error decoding patch: error converting YAML to JSON: yaml: ", // it looks like JSON
		"a: b\n---\nc:": "",                                                            // the first document counts
	} {
		code, _, answer := do(t, config, "PATCH", path, applyYAML, body)
		if code != http.StatusBadRequest || !strings.Contains(answer, want) {
			t.Errorf("%q: %d %s", body, code, answer)
		}
	}
	code, _, answer := do(t, config, "PATCH", path, applyYAML, "{apiVersion: v1, kind: ConfigMap, metadata: {name: m}, data: {a: b}}")
	if code != http.StatusCreated {
		t.Errorf("YAML that looks like JSON: %d %s", code, answer)
	}
	code, _, answer = do(t, config, "PATCH", path+"&fieldValidation=Strict", applyYAML, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {a: b, a: c}")
	if code != http.StatusBadRequest || !strings.Contains(answer, `error strict decoding patch: error converting YAML to JSON: yaml: unmarshal errors:\n  line 4: key \"a\" already set in map`) {
		t.Errorf("strict: %d %s", code, answer)
	}
}
