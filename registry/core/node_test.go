package core_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/registry/registrytest"
)

func node() *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n"},
		Spec: corev1.NodeSpec{
			PodCIDR: "10.0.0.0/24", ProviderID: "x://1",
			Taints: []corev1.Taint{{Key: "a", Effect: corev1.TaintEffectNoSchedule}},
		},
		Status: corev1.NodeStatus{
			Capacity:         corev1.ResourceList{"cpu": resource.MustParse("4"), "example.com/gpu": resource.MustParse("1")},
			Addresses:        []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "1.2.3.4"}},
			DeclaredFeatures: []string{"Abc", "Def/ghi"},
		},
	}
}

func annotate(key, value string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Annotations = map[string]string{key: value} }
}

func TestNode(t *testing.T) {
	k := registrytest.Find(t, core.Kinds(core.Options{}), "nodes")
	type change = registrytest.Change[*corev1.Node]
	long := strings.Repeat("A", 254)
	const taints = "scheduler.alpha.kubernetes.io/taints"
	const avoid = "scheduler.alpha.kubernetes.io/preferAvoidPods"
	changes := []change{
		{Name: "taint twice", To: func(n *corev1.Node) {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "a", Value: "v", Effect: corev1.TaintEffectNoSchedule})
		}, Refused: []string{
			`metadata.taints[1]: Duplicate value: {"Key":"a","Value":"v","Effect":"NoSchedule","TimeAdded":null}: taints must be unique by key and effect pair`}},
		{Name: "taint of another effect", To: func(n *corev1.Node) {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "a", Effect: corev1.TaintEffectNoExecute})
		}},
		{Name: "bad taints", To: func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "a"}, {Key: "b", Value: "-", Effect: "Explode"}}
		}, Refused: []string{
			`metadata.taints[0].effect: Required value`,
			`metadata.taints[1].value: Invalid value: "-": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`,
			`metadata.taints[1].effect: Unsupported value: "Explode": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"`}},
		{Name: "annotated taints", To: annotate(taints, `[{"key":"a","effect":"x"}]`), Refused: []string{
			`metadata.annotations.scheduler.alpha.kubernetes.io/taints[0].effect: Unsupported value: "x": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"`}},
		{Name: "annotated nonsense", To: annotate(taints, `{}`), Refused: []string{
			`metadata.annotations: Invalid value: "scheduler.alpha.kubernetes.io/taints": json: cannot unmarshal object into Go value of type []core.Taint`}},
		{Name: "avoids nonsense", To: annotate(avoid, `[]`), Refused: []string{
			`metadata.annotations.AvoidPods: Invalid value: "scheduler.alpha.kubernetes.io/preferAvoidPods": json: cannot unmarshal array into Go value of type v1.AvoidPods`}},
		{Name: "avoids a controller", To: annotate(avoid, `{"preferAvoidPods":[{"podSignature":{"podController":{"kind":"X","controller":true}}}]}`)},
		{Name: "avoids whom", To: annotate(avoid, `{"preferAvoidPods":[{"podSignature":{}}]}`), Refused: []string{
			`metadata.annotations.scheduler.alpha.kubernetes.io/preferAvoidPods[0].PodSignature: Required value`}},
		{Name: "avoids no controller", To: annotate(avoid, `{"preferAvoidPods":[{"podSignature":{"podController":{"kind":"X"}}}]}`), Refused: []string{
			`metadata.annotations.scheduler.alpha.kubernetes.io/preferAvoidPods[0].PodSignature.PodController.Controller: Invalid value: false: must point to a controller`}},
	}
	registrytest.Create(t, k, node(), append(changes, []change{
		{Name: "negative and half", To: func(n *corev1.Node) {
			n.Status.Capacity["cpu"], n.Status.Capacity["example.com/gpu"] = resource.MustParse("-1"), resource.MustParse("500m")
			n.Status.Allocatable = corev1.ResourceList{"pods": resource.MustParse("1500m")}
		}, Refused: []string{
			`status.capacity.cpu: Invalid value: "-1": must be greater than or equal to 0`,
			`status.capacity.example.com/gpu: Invalid value: "500m": must be an integer`,
			`status.allocatable.pods: Invalid value: "1500m": must be an integer`}},
		{Name: "swap", To: func(n *corev1.Node) { n.Status.NodeInfo.Swap = &corev1.NodeSwapStatus{Capacity: new(int64(0))} }, Refused: []string{
			`metadata.nodeSwapStatus.capacity: Invalid value: 0: must be greater than zero`}},
		{Name: "two families", To: func(n *corev1.Node) { n.Spec.PodCIDRs = []string{"10.0.0.0/24", "fd00::/64"} }},
		{Name: "one family twice", To: func(n *corev1.Node) { n.Spec.PodCIDRs = []string{"10.0.0.0/24", "10.0.1.0/24"} }, Refused: []string{
			`spec.podCIDRs: Invalid value: ["10.0.0.0/24","10.0.1.0/24"]: may specify no more than one CIDR for each IP family`}},
		{Name: "no network", To: func(n *corev1.Node) { n.Spec.PodCIDR = "10.0.0.1" }, Refused: []string{
			`spec.podCIDRs[0]: Invalid value: "10.0.0.1": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)`}},
		{Name: "the longest feature", To: func(n *corev1.Node) { n.Status.DeclaredFeatures = []string{long[:253]} }},
		{Name: "a longer feature", To: func(n *corev1.Node) { n.Status.DeclaredFeatures = []string{long} }, Refused: []string{
			`status.declaredFeatures[0]: Invalid value: "` + long + `": invalid feature name "` + long + `": must be no more than 253 characters`}},
		{Name: "features", To: func(n *corev1.Node) { n.Status.DeclaredFeatures = []string{"B", "A", "A", "c"} }, Refused: []string{
			`status.declaredFeatures[1]: Invalid value: "A": list must be sorted alphabetically`,
			`status.declaredFeatures[2]: Duplicate value: "A"`,
			`status.declaredFeatures[3]: Invalid value: "c": invalid feature name "c": must start with an UpperCamelCase segment, with subsequent segments separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes`}},
	}...))
	const noCIDR = `spec.podCIDRs: Forbidden: node updates may not change podCIDR except from "" to valid`
	registrytest.Update(t, k, "", node(), append(changes, []change{
		{Name: "cordon", To: func(n *corev1.Node) { n.Spec.Unschedulable = true }},
		{Name: "networks", To: func(n *corev1.Node) { n.Spec.PodCIDR = "10.0.1.0/24" }, Refused: []string{noCIDR}},
		{Name: "no networks", To: func(n *corev1.Node) { n.Spec.PodCIDR, n.Spec.PodCIDRs = "", nil }, Refused: []string{noCIDR}},
		{Name: "provider", To: func(n *corev1.Node) { n.Spec.ProviderID = "x://2" }, Refused: []string{
			`spec.providerID: Invalid value: null: field cannot be modified once set`}},
		{Name: "no provider", To: func(n *corev1.Node) { n.Spec.ProviderID = "" }, Refused: []string{
			`spec.providerID: Invalid value: null: field cannot be cleared once set`}},
		{Name: "external id", To: func(n *corev1.Node) { n.Spec.DoNotUseExternalID = "x" }, Refused: []string{
			`spec.externalID: Forbidden: may not be updated`}},
	}...))
	bare := node()
	bare.Spec.PodCIDR = ""
	registrytest.Update(t, k, "", bare, []change{{Name: "its first networks", To: func(n *corev1.Node) { n.Spec.PodCIDR = "10.0.1.0/24" }}})
	registrytest.Update(t, k, "status", node(), []change{
		{Name: "the spec stays", To: func(n *corev1.Node) { n.Spec.PodCIDR, n.Spec.PodCIDRs = "", nil }},
		{Name: "address twice", To: func(n *corev1.Node) { n.Status.Addresses = append(n.Status.Addresses, n.Status.Addresses[0]) }, Refused: []string{
			`status.addresses[1]: Duplicate value: {"Type":"InternalIP","Address":"1.2.3.4"}`}},
		{Name: "negative", To: func(n *corev1.Node) { n.Status.Allocatable["cpu"] = resource.MustParse("-1") }, Refused: []string{
			`status.allocatable.cpu: Invalid value: "-1": must be greater than or equal to 0`}},
	})
}

// TestNodePreemption: the feature is off; what is stored of it can only be removed.
func TestNodePreemption(t *testing.T) {
	k := registrytest.Find(t, core.Kinds(core.Options{}), "nodes")
	by := func(owners ...string) func(*corev1.Node) {
		return func(n *corev1.Node) {
			n.Spec.PodPreemptionPolicy = &corev1.NodePodPreemptionPolicy{DisableResizePreemption: owners}
		}
	}
	n := node()
	by("a")(n)
	registrytest.Prepare(k, n)
	if n.Spec.PodPreemptionPolicy != nil {
		t.Error("a new node has a policy")
	}
	by("a")(n)
	if registrytest.Replace(k, "", n, node()); n.Spec.PodPreemptionPolicy != nil {
		t.Error("a policy was added")
	}
	by("a")(n)
	registrytest.Update(t, k, "", n, []registrytest.Change[*corev1.Node]{
		{Name: "the same", To: by("a")},
		{Name: "none", To: func(n *corev1.Node) { n.Spec.PodPreemptionPolicy = nil }},
		{Name: "another", To: by("b"), Refused: []string{`spec.podPreemptionPolicy: Forbidden`}},
	})
}

// The kubelet configuration in a configmap is a removed feature: stored references stay.
func TestNodeConfig(t *testing.T) {
	k := registrytest.Find(t, core.Kinds(core.Options{}), "nodes")
	source := func() *corev1.NodeConfigSource {
		return &corev1.NodeConfigSource{ConfigMap: &corev1.ConfigMapNodeConfigSource{Namespace: "ns", Name: "x", KubeletConfigKey: "k"}}
	}
	fresh := node()
	fresh.Spec.ConfigSource = source()
	registrytest.Prepare(k, fresh)
	if fresh.Spec.ConfigSource != nil {
		t.Error("a new node has a config source")
	}
	stored := node()
	stored.Spec.ConfigSource = source()
	stored.Status.Config = &corev1.NodeConfigStatus{}
	registrytest.Update(t, k, "", stored, []registrytest.Change[*corev1.Node]{
		{Name: "empty", To: func(n *corev1.Node) { n.Spec.ConfigSource.ConfigMap = nil }, Refused: []string{
			`spec.configSource: Invalid value: {"ConfigMap":null}: exactly one reference subfield must be non-nil`}},
		{Name: "of a version", To: func(n *corev1.Node) { n.Spec.ConfigSource.ConfigMap.UID = "1" }, Refused: []string{
			`spec.configSource.configMap.uid: Forbidden: uid must not be set in spec`}},
	})
	registrytest.Update(t, k, "status", stored, []registrytest.Change[*corev1.Node]{
		{Name: "of no version", To: func(n *corev1.Node) { n.Status.Config.Active = source() }, Refused: []string{
			`status.config.active.configMap.uid: Required value`, `status.config.active.configMap.resourceVersion: Required value`}},
	})
}

func TestNodePrepare(t *testing.T) {
	k := registrytest.Find(t, core.Kinds(core.Options{}), "nodes")
	n := node()
	n.Status.Capacity["cpu"] = resource.MustParse("0.0001")
	registrytest.Prepare(k, n)
	if len(n.Spec.PodCIDRs) != 1 || n.Spec.PodCIDRs[0] != n.Spec.PodCIDR {
		t.Errorf("networks %v", n.Spec.PodCIDRs)
	}
	if cpu := n.Status.Allocatable["cpu"]; cpu.String() != "1m" {
		t.Errorf("allocatable %v", n.Status.Allocatable)
	}
	n.Status.Capacity["cpu"] = resource.MustParse("2")
	if cpu := n.Status.Allocatable["cpu"]; cpu.String() != "1m" {
		t.Error("allocatable shares the map of capacity")
	}
	if got := k.Fields(n).Get("spec.unschedulable"); got != "false" {
		t.Errorf("field spec.unschedulable is %q", got)
	}
	next := n.DeepCopy()
	next.Status.Capacity = nil
	registrytest.Replace(k, "", next, n)
	if len(next.Status.Capacity) == 0 {
		t.Error("an update of the node changed its status")
	}
}
