package load_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/plugins"
	"github.com/keelson-dev/keelson/scheduler/whatif"
	"github.com/keelson-dev/keelson/scheduler/whatif/load"
)

const cluster = `
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: a, labels: {zone: east, kubernetes.io/hostname: a}}, status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}}}
- {apiVersion: v1, kind: Node, metadata: {name: b, labels: {zone: west, kubernetes.io/hostname: b}}, status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}}}
- {apiVersion: v1, kind: Pod, metadata: {name: web-1, namespace: shop, labels: {app: web}}, spec: {nodeName: a, containers: [{name: c}]}}
- {apiVersion: v1, kind: Pod, metadata: {name: done, namespace: shop}, spec: {nodeName: a, containers: [{name: c}]}, status: {phase: Succeeded}}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: shop}}
- {apiVersion: example.com/v1, kind: Special, metadata: {name: x}}
---
# Namespaces, services, budgets and volumes count.
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {team: blue}}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {selector: {app: web}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web, namespace: shop}
spec: {maxUnavailable: 0, selector: {matchLabels: {app: web}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: shop, annotations: {pv.kubernetes.io/bind-completed: "yes"}}
spec: {volumeName: pv, storageClassName: fast, accessModes: [ReadWriteOnce]}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: pv}
spec:
  claimRef: {namespace: shop, name: data}
  storageClassName: fast
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [west]}]}]}}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fast}
provisioner: example.com/x
volumeBindingMode: WaitForFirstConsumer
---
---
`

// apart keeps pods of the team's namespaces from each other's hosts; withData needs a volume.
const pending = `
apiVersion: v1
kind: Pod
metadata: {name: younger, namespace: shop, creationTimestamp: "2026-01-02T00:00:00Z"}
spec:
  containers: [{name: c}]
  affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: web}}, namespaceSelector: {matchLabels: {team: blue}}}]}}
---
apiVersion: v1
kind: Pod
metadata: {name: older, namespace: shop, creationTimestamp: "2026-01-01T00:00:00Z"}
spec:
  containers: [{name: c}]
  volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "leaves", "namespace": "shop", "deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"containers": [{"name": "c"}]}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "failed", "namespace": "shop"}, "spec": {"containers": [{"name": "c"}]}, "status": {"phase": "Failed"}}
`

func decoded(t *testing.T, texts ...string) *load.Objects {
	t.Helper()
	all := load.New()
	for _, text := range texts {
		if err := all.Decode(strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// check places the pending pods and compares.
func check(t *testing.T, all *load.Objects, want map[string]string) {
	t.Helper()
	w, err := whatif.New(all.Snapshot(), scheduler.Profile{Plugins: all.Plugins(plugins.Default())})
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	got := map[string]string{}
	for _, p := range w.PlaceAll(t.Context(), all.Pending()) {
		order = append(order, p.Pod.Name)
		got[p.Pod.Name] = p.Node
		if p.Err != nil {
			t.Errorf("%s: %v", p.Pod.Name, p.Err)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" || strings.Join(order, " ") != "older younger" {
		t.Errorf("in order %v (-want +got)\n%s", order, diff)
	}
	if n := len(all.Snapshot().Node("a").Pods); n != 1 {
		t.Errorf("%d pods are on a", n)
	}
}

func TestDecode(t *testing.T) {
	check(t, decoded(t, cluster, pending), map[string]string{"older": "b", "younger": "b"})
	for text, want := range map[string]string{
		"a: [":           "document 1: ",
		"---\n{a: b}\n":  "document 1: Object 'Kind' is missing",
		"---\n---\n42\n": "document 1: ",
		cluster + "---\n{apiVersion: v1, kind: Node, metadata: {name: a}}\n": `document 8: two objects *v1.Node of namespace "" and name "a"`,
	} {
		if err := load.New().Decode(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: got %v, want %s", text, err, want)
		}
	}
	failing := errors.New("broken")
	if err := load.New().Decode(reader{failing}); !errors.Is(err, failing) {
		t.Errorf("a text that cannot be read: %v", err)
	}
}

type reader struct{ err error }

func (r reader) Read([]byte) (int, error) { return 0, r.err }

// A budget that allows no disruption keeps preemption from its pods if others do.
func TestBudgets(t *testing.T) {
	all := decoded(t, cluster, `
apiVersion: v1
kind: Pod
metadata: {name: other, namespace: shop}
spec: {nodeName: b, containers: [{name: c}]}
---
apiVersion: v1
kind: Pod
metadata: {name: vip, namespace: shop}
spec: {priority: 5, containers: [{name: c, ports: [{hostPort: 80}]}]}
`)
	snapshot := all.Snapshot()
	state := snapshot.State()
	for _, n := range snapshot.Nodes() { // both pods have the port
		for _, p := range n.Pods {
			with := p.Pod.DeepCopy()
			with.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80}}
			state.SetPod(with)
		}
	}
	w, err := whatif.New(state.Snapshot(), scheduler.Profile{Plugins: all.Plugins(plugins.Default())})
	if err != nil {
		t.Fatal(err)
	}
	placed := w.Place(t.Context(), all.Pending()[0])
	if placed.Node != "b" || len(placed.Victims) != 1 || placed.Victims[0].Name != "other" {
		t.Errorf("got %+v", placed)
	}
}

// server lists what was decoded, and lacks a kind.
type server struct {
	lists map[string][]runtime.Object
	err   error
}

func (s server) List(_ context.Context, t client.Target, _ metav1.ListOptions) (runtime.Object, error) {
	switch t.Resource.Resource {
	case "csistoragecapacities":
		return nil, apierrors.NewNotFound(t.Resource.GroupResource(), "")
	case "pods":
		if s.err != nil {
			return nil, s.err
		}
		list := &corev1.PodList{}
		for _, obj := range s.lists["pods"] {
			list.Items = append(list.Items, *obj.(*corev1.Pod))
		}
		return list, nil
	}
	list := &metav1.List{}
	return list, meta.SetList(list, s.lists[t.Resource.Resource])
}

func TestRead(t *testing.T) {
	snapshot, s := decoded(t, cluster, pending), server{lists: map[string][]runtime.Object{}}
	for _, n := range snapshot.Snapshot().Nodes() {
		s.lists["nodes"] = append(s.lists["nodes"], n.Node)
		for _, p := range n.Pods {
			s.lists["pods"] = append(s.lists["pods"], p.Pod)
		}
	}
	for _, p := range snapshot.Pending() {
		p = p.DeepCopy()
		p.Spec.Volumes = nil
		s.lists["pods"] = append(s.lists["pods"], p)
	}
	s.lists["namespaces"] = []runtime.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"team": "blue"}}}}
	all, err := load.Read(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	check(t, all, map[string]string{"older": "b", "younger": "b"})
	s.err = errors.New("broken")
	if _, err := load.Read(t.Context(), s); !errors.Is(err, s.err) || err.Error() != "reading pods: broken" {
		t.Errorf("got %v", err)
	}
}

// TestPending: pods wait in the order of their creation, and then of their names.
func TestPending(t *testing.T) {
	all := load.New()
	for name, age := range map[string]int{"a": 1, "b": 3, "c": 2, "d": 3, "e": 1} {
		created := metav1.Date(2026, 1, 1, 10-age, 0, 0, 0, time.UTC)
		if err := all.Add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, CreationTimestamp: created}}); err != nil {
			t.Fatal(err)
		}
	}
	var order []string
	for _, p := range all.Pending() {
		order = append(order, p.Name)
	}
	if got := strings.Join(order, " "); got != "b d c a e" {
		t.Errorf("got %s", got)
	}
}
