package managedfields_test

import (
	"encoding/json"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	upstream "k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/keelson-dev/keelson/apiserver/managedfields"
)

const podJSON = `{"metadata":{"name":"web-abc-xyz","generateName":"web-abc-","namespace":"default","labels":{"app":"web","pod-template-hash":"abc"},
"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web-abc","uid":"8b3c0b2e-0000-0000-0000-000000000000","controller":true,"blockOwnerDeletion":true}]},
"spec":{"volumes":[{"name":"access","projected":{"defaultMode":420,"sources":[{"serviceAccountToken":{"expirationSeconds":3607,"path":"token"}}]}}],
"containers":[{"name":"web","image":"registry.example/web:1","imagePullPolicy":"IfNotPresent","ports":[{"containerPort":80,"protocol":"TCP"}],
"env":[{"name":"A","value":"1"},{"name":"B","value":"2"}],"resources":{"requests":{"cpu":"100m","memory":"64Mi"}},
"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","volumeMounts":[{"name":"access","readOnly":true,"mountPath":"/var/run/secrets"}]}],
"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","serviceAccountName":"default","serviceAccount":"default","securityContext":{},
"schedulerName":"default-scheduler","enableServiceLinks":true,"preemptionPolicy":"PreemptLowerPriority","priority":0,
"tolerations":[{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}]}}`

const runningJSON = `{"phase":"Running","startTime":"2026-01-01T00:00:00Z","podIP":"10.1.1.1","podIPs":[{"ip":"10.1.1.1"}],"hostIP":"10.0.0.1","hostIPs":[{"ip":"10.0.0.1"}],"qosClass":"Burstable",
"conditions":[{"type":"PodReadyToStartContainers","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z"},{"type":"Initialized","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z"},
{"type":"Ready","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z"},{"type":"ContainersReady","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z"},{"type":"PodScheduled","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z"}],
"containerStatuses":[{"name":"web","ready":true,"started":true,"restartCount":0,"image":"registry.example/web:1","imageID":"x","containerID":"containerd://x","state":{"running":{"startedAt":"2026-01-01T00:00:00Z"}}}]}`

const deploymentJSON = `{"metadata":{"name":"web","namespace":"default","labels":{"app":"web"}},"spec":{"replicas":3,"selector":{"matchLabels":{"app":"web"}},"revisionHistoryLimit":10,"progressDeadlineSeconds":600,
"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":"25%","maxUnavailable":"25%"}},"template":{"metadata":{"labels":{"app":"web"}},
"spec":{"containers":[{"name":"web","image":"registry.example/web:1","imagePullPolicy":"IfNotPresent","resources":{},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}],
"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","securityContext":{},"schedulerName":"default-scheduler"}}}}`

// write is one write to measure: what it finds and what it leaves behind.
type write struct {
	name      string
	gvk       schema.GroupVersionKind
	sub       string
	by        string
	live, obj managedfields.Object
}

func read[T any](b *testing.B, document string) *T {
	b.Helper()
	obj := new(T)
	if err := json.Unmarshal([]byte(document), obj); err != nil {
		b.Fatal(err)
	}
	return obj
}

func writes(b *testing.B) []write {
	b.Helper()
	podGVK, deploymentGVK := corev1.SchemeGroupVersion.WithKind("Pod"), appsv1.SchemeGroupVersion.WithKind("Deployment")
	pod := read[corev1.Pod](b, podJSON)
	created := pod.DeepCopy()
	tracker(podGVK, "").Update(&corev1.Pod{}, created, "kube-controller-manager")
	created.UID = "u"
	running := created.DeepCopy()
	running.Status = *read[corev1.PodStatus](b, runningJSON)
	again := running.DeepCopy()
	tracker(podGVK, "status").Update(created, again, "kubelet")
	stopped := again.DeepCopy()
	stopped.Status.Conditions[2].Status = "False"
	deployment := read[appsv1.Deployment](b, deploymentJSON)
	deployed := deployment.DeepCopy()
	tracker(deploymentGVK, "").Update(&appsv1.Deployment{}, deployed, "kubectl")
	deployed.UID = "u"
	scaled := deployed.DeepCopy()
	*scaled.Spec.Replicas = 5
	leaseGVK := coordinationv1.SchemeGroupVersion.WithKind("Lease")
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: new(string), RenewTime: &metav1.MicroTime{Time: time.Unix(1, 0)}}}
	tracker(leaseGVK, "").Update(&coordinationv1.Lease{}, lease, "kubelet")
	lease.UID = "u"
	renewed := lease.DeepCopy()
	renewed.Spec.RenewTime.Time = time.Unix(2, 0)
	return []write{
		{"pod create", podGVK, "", "kube-controller-manager", &corev1.Pod{}, pod},
		{"pod status first", podGVK, "status", "kubelet", created, running},
		{"pod status again", podGVK, "status", "kubelet", again, stopped},
		{"deployment create", deploymentGVK, "", "kubectl", &appsv1.Deployment{}, deployment},
		{"deployment update", deploymentGVK, "", "autoscaler", deployed, scaled},
		{"lease renew", leaseGVK, "", "kubelet", lease, renewed},
	}
}

var shared managedfields.Schema

func tracker(gvk schema.GroupVersionKind, sub string) *managedfields.Tracker {
	resets := map[string][]string{"": {"status"}, "status": {"spec"}}[sub]
	return managedfields.New(&shared, managedfields.Kind{Versions: []managedfields.Version{{GroupVersionKind: gvk, New: func() managedfields.Object {
		obj, _ := scheme.Scheme.New(gvk)
		return obj.(managedfields.Object)
	}}}}, managedfields.Endpoint{Version: gvk.GroupVersion(), Subresource: sub, Resets: resets})
}

// BenchmarkUpdate is what tracking adds to a write.
func BenchmarkUpdate(b *testing.B) {
	for _, w := range writes(b) {
		b.Run(w.name, func(b *testing.B) {
			t := tracker(w.gvk, w.sub)
			sent := w.obj.GetManagedFields()
			b.ReportAllocs()
			for b.Loop() {
				w.obj.SetManagedFields(sent)
				t.Update(w.live, w.obj, w.by)
			}
			w.obj.SetManagedFields(sent)
		})
	}
}

// BenchmarkUpstream is what upstream's FieldManager would add.
func BenchmarkUpstream(b *testing.B) {
	converter := applyconfigurations.NewTypeConverter(scheme.Scheme)
	for _, w := range writes(b) {
		b.Run(w.name, func(b *testing.B) {
			m, err := upstream.NewDefaultFieldManager(converter, conversion{}, noDefaults{}, named{}, w.gvk, w.gvk.GroupVersion(), w.sub, nil)
			if err != nil {
				b.Fatal(err)
			}
			w.live.GetObjectKind().SetGroupVersionKind(w.gvk)
			w.obj.GetObjectKind().SetGroupVersionKind(w.gvk)
			sent := w.obj.GetManagedFields()
			b.ReportAllocs()
			for b.Loop() {
				w.obj.SetManagedFields(sent)
				if _, err := m.Update(w.live, w.obj, w.by); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkFirst is what the first write of a kind costs on top.
func BenchmarkFirst(b *testing.B) {
	pod := read[corev1.Pod](b, podJSON)
	b.ReportAllocs()
	for b.Loop() {
		shared = managedfields.Schema{}
		pod.ManagedFields = nil
		tracker(corev1.SchemeGroupVersion.WithKind("Pod"), "").Update(&corev1.Pod{}, pod, "x")
	}
}

// BenchmarkApply is an apply that changes nothing, and the first of a kind, which makes its schema.
func BenchmarkApply(b *testing.B) {
	gvk := appsv1.SchemeGroupVersion.WithKind("Deployment")
	config := &unstructured.Unstructured{Object: map[string]any{}}
	if err := json.Unmarshal([]byte(deploymentJSON), &config.Object); err != nil {
		b.Fatal(err)
	}
	config.SetGroupVersionKind(gvk)
	for name, forget := range map[string]bool{"again": false, "first": true} {
		b.Run(name, func(b *testing.B) {
			shared = managedfields.Schema{}
			live, err := tracker(gvk, "").Apply(&appsv1.Deployment{}, config, "me", false)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if forget {
					shared = managedfields.Schema{}
				}
				if _, err := tracker(gvk, "").Apply(live, config, "me", false); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkSchema is what tracking adds to a write of a custom object whose schema is known, what an apply of it takes that
// changes nothing, and what the first write of a kind costs on top.
func BenchmarkSchema(b *testing.B) {
	top := fromJSON(b, widgetSchema)
	widgets := func() *managedfields.Tracker {
		return managedfields.New(&shared, managedfields.Kind{Versions: []managedfields.Version{{
			GroupVersionKind: customGVK(0), Schema: managedfields.NewOpenAPI(func() map[string]any { return top }),
			New: func() managedfields.Object { return &unstructured.Unstructured{Object: map[string]any{}} },
		}}}, managedfields.Endpoint{Version: customGVK(0).GroupVersion(), Resets: []string{"status"}})
	}
	config := widget(b, `{"atomic":["a","b"],"set":["a","b","c"],"ports":[{"port":80,"name":"http","rules":[{"id":"a","to":"b"},{"id":"b","to":"c"}]},{"port":443,"name":"https"}],
"struct":{"a":"1","b":"2"},"labels":{"app":"web","tier":"front"},"target":"25%","free":{"a":{"b":[1,2,3]}},"n":3}`)
	tracker, empty := widgets(), &unstructured.Unstructured{Object: map[string]any{}}
	live, err := tracker.Apply(empty, config, "me", false)
	if err != nil {
		b.Fatal(err)
	}
	live.SetUID("u")
	changed := live.DeepCopyObject().(*unstructured.Unstructured)
	if err := unstructured.SetNestedField(changed.Object, int64(4), "spec", "n"); err != nil {
		b.Fatal(err)
	}
	update := func(t *managedfields.Tracker) {
		changed.SetManagedFields(live.GetManagedFields())
		t.Update(live, changed, "other")
	}
	for name, f := range map[string]func(){
		"update":       func() { update(tracker) },
		"update first": func() { update(widgets()) },
		"apply": func() {
			if _, err := tracker.Apply(live, config, "me", false); err != nil {
				b.Fatal(err)
			}
		},
		"idle": func() { widgets() },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				f()
			}
		})
	}
}
