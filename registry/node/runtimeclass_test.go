package node_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/codec"
	"github.com/keelson-dev/keelson/registry/node"
	"github.com/keelson-dev/keelson/registry/registrytest"
)

func TestKinds(t *testing.T) { registrytest.Kinds(t, node.Kinds()) }

type change = registrytest.Change[*nodev1.RuntimeClass]

func class() *nodev1.RuntimeClass {
	return &nodev1.RuntimeClass{
		ObjectMeta: metav1.ObjectMeta{Name: "vm"}, Handler: "kata",
		Overhead: &nodev1.Overhead{PodFixed: corev1.ResourceList{"cpu": resource.MustParse("250m")}},
		Scheduling: &nodev1.Scheduling{
			NodeSelector: map[string]string{"vm": "yes"},
			Tolerations: []corev1.Toleration{
				{Key: "vm", Operator: "Exists"}, {Key: "vm", Operator: "Equal", Value: "x", Effect: "NoExecute", TolerationSeconds: new(int64(3))},
			},
		},
	}
}

func TestRuntimeClass(t *testing.T) {
	k := registrytest.Find(t, node.Kinds(), "runtimeclasses")
	if k.Namespaced || !k.Rules.CreateOnUpdate || !k.Rules.ConditionalUpdate || k.Rules.Deletion.ReturnsObject {
		t.Errorf("rules %+v", k.Rules)
	}
	const label = "must not contain dots"
	const value = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
	overhead := func(list corev1.ResourceList) func(*nodev1.RuntimeClass) {
		return func(c *nodev1.RuntimeClass) { c.Overhead.PodFixed = list }
	}
	changes := []change{
		{Name: "bare", To: func(c *nodev1.RuntimeClass) { c.Overhead, c.Scheduling = nil, nil }},
		{Name: "no overhead", To: overhead(nil)},
		{Name: "bad resources", To: overhead(corev1.ResourceList{"cpu": resource.MustParse("-1"), "pods": resource.MustParse("1"), "x": resource.MustParse("1")}), Refused: []string{
			`overhead.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0`,
			`overhead.limits[pods]: Invalid value: "pods": must be a standard resource for containers`,
			`overhead.limits[x]: Invalid value: "x": must be a standard resource type or fully qualified`,
			`overhead.limits[x]: Invalid value: "x": must be a standard resource for containers`}},
		{Name: "huge pages", To: overhead(corev1.ResourceList{"hugepages-2Mi": resource.MustParse("3Mi")}), Refused: []string{
			`overhead.limits[hugepages-2Mi]: Invalid value: "3Mi": 3Mi is not positive integer multiple of hugepages-2Mi`,
			`overhead: Forbidden: HugePages require cpu or memory`}},
		{Name: "a bad selector", To: func(c *nodev1.RuntimeClass) { c.Scheduling.NodeSelector["vm"] = "a b" }, Refused: []string{
			`scheduling.nodeSelector: Invalid value: "a b": ` + value}},
		{Name: "a bad toleration", To: func(c *nodev1.RuntimeClass) {
			c.Scheduling.Tolerations[0] = corev1.Toleration{Operator: "Lt", Value: "1"}
		}, Refused: []string{
			"scheduling.tolerations[0].operator: Invalid value: \"Lt\": operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
			`scheduling.tolerations[0].operator: Unsupported value: "Lt": supported values: "Equal", "Exists", "Lt", "Gt"`}},
		{Name: "a toleration twice", To: func(c *nodev1.RuntimeClass) {
			c.Scheduling.Tolerations[0] = *c.Scheduling.Tolerations[1].DeepCopy()
			c.Scheduling.Tolerations[0].TolerationSeconds = nil
		}, Refused: []string{
			`scheduling.tolerations[1]: Duplicate value: {"Key":"vm","Operator":"Equal","Value":"x","Effect":"NoExecute","TolerationSeconds":3}`}},
	}
	registrytest.Create(t, k, class(), append(changes,
		change{Name: "no handler", To: func(c *nodev1.RuntimeClass) { c.Handler, c.Scheduling.NodeSelector["vm"] = "", "a b" }, Refused: []string{
			`scheduling.nodeSelector: Invalid value: "a b": ` + value,
			`handler: Required value`}},
		change{Name: "a bad handler", To: func(c *nodev1.RuntimeClass) { c.Handler, c.Scheduling.NodeSelector["vm"] = "a.b", "a b" }, Refused: []string{
			`scheduling.nodeSelector: Invalid value: "a b": ` + value,
			`handler: Invalid value: "a.b": ` + label}},
		change{Name: "a long handler", To: func(c *nodev1.RuntimeClass) { c.Handler = strings.Repeat("x", 64) }, Refused: []string{
			`handler: Invalid value: "` + strings.Repeat("x", 64) + `": must be no more than 63 bytes`}},
	))
	registrytest.Update(t, k, "", class(), append(changes,
		change{Name: "a long handler", To: func(c *nodev1.RuntimeClass) { c.Handler = strings.Repeat("x", 64) }, Refused: []string{
			`handler: Invalid value: "` + strings.Repeat("x", 64) + `": must be no more than 63 characters`,
			"handler: Invalid value: null: field is immutable"}},
		change{Name: "another handler", To: func(c *nodev1.RuntimeClass) { c.Handler, c.Scheduling.NodeSelector["vm"] = "a.b", "a b" }, Refused: []string{
			`handler: Invalid value: "a.b": ` + label,
			`scheduling.nodeSelector: Invalid value: "a b": ` + value,
			`handler: Invalid value: null: field is immutable`}},
		change{Name: "no handler", To: func(c *nodev1.RuntimeClass) { c.Handler, c.Scheduling.NodeSelector["vm"] = "", "a b" }, Refused: []string{
			`scheduling.nodeSelector: Invalid value: "a b": ` + value,
			`handler: Invalid value: null: field is immutable`,
			`handler: Required value`}},
	))
	bad := class()
	bad.Handler, bad.Scheduling.NodeSelector["vm"] = "a.b", "a b"
	if errs := registrytest.Replace(k, "", bad.DeepCopy(), bad); len(errs) != 2 || errs[0].Field != "handler" {
		t.Errorf("a class that was never valid: %v", errs)
	}
}

func TestWarnings(t *testing.T) {
	k := registrytest.Find(t, node.Kinds(), "runtimeclasses")
	bare, labeled := class(), class()
	bare.Scheduling = nil
	labeled.Scheduling.NodeSelector = map[string]string{
		"beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux",
		"app.kubernetes.io/created-by": "x", "scheduler.alpha.kubernetes.io/preferAvoidPods": "x",
		"failure-domain.beta.kubernetes.io/region": "x", "beta.kubernetes.io/instance-type": "x",
	}
	var told []string
	ctx := registry.WithWarnings(t.Context(), func(text string) { told = append(told, text) })
	for _, c := range []*nodev1.RuntimeClass{bare, class(), labeled} {
		if err := k.Rules.Guard(ctx, c, nil); err != nil {
			t.Error(err)
		}
	}
	want := []string{
		`scheduling.nodeSelector: deprecated since v1.9`,
		`scheduling.nodeSelector: deprecated since v1.14; use "kubernetes.io/arch" instead`,
		`scheduling.nodeSelector: deprecated since v1.17; use "node.kubernetes.io/instance-type" instead`,
		`scheduling.nodeSelector: deprecated since v1.14; use "kubernetes.io/os" instead`,
		`scheduling.nodeSelector: deprecated since v1.17; use "topology.kubernetes.io/region" instead`,
		`scheduling.nodeSelector: deprecated since v1.22; use Taints and Tolerations instead`,
	}
	if !reflect.DeepEqual(told, want) {
		t.Errorf("warnings %q", told)
	}
}

// TestOlder: what servers stored in the versions before v1 is read as v1.
func TestOlder(t *testing.T) {
	k := registrytest.Find(t, node.Kinds(), "runtimeclasses")
	const rest = `"overhead":{"podFixed":{"cpu":"250m"}},"scheduling":{"nodeSelector":{"vm":"yes"},"tolerations":[` +
		`{"key":"vm","operator":"Exists"},{"key":"vm","operator":"Equal","value":"x","effect":"NoExecute","tolerationSeconds":3}]}`
	for i, data := range []string{
		`{"apiVersion":"node.k8s.io/v1beta1","kind":"RuntimeClass","metadata":{"name":"vm"},"handler":"kata",` + rest + `}`,
		`{"apiVersion":"node.k8s.io/v1alpha1","kind":"RuntimeClass","metadata":{"name":"vm"},"spec":{"runtimeHandler":"kata",` + rest + `}}`,
	} {
		old := k.Older[i].New()
		if _, err := codec.Decode([]byte(data), old); err != nil {
			t.Fatal(err)
		}
		if got := k.Older[i].ToStored(old); !reflect.DeepEqual(got, registry.Object(class())) {
			t.Errorf("%s is read as %+v", data, got)
		}
	}
	if len(k.Older) != 2 {
		t.Errorf("%d older versions", len(k.Older))
	}
}

// A class is shown with its handler.
func ExampleKinds() {
	k := node.Kinds()[0]
	c := class()
	c.CreationTimestamp = metav1.NewTime(time.Unix(0, 0))
	fmt.Println(k.Plural, k.Rules.Validate(c).ToAggregate())
	fmt.Println(k.Columns.Cells(c, time.Unix(60, 0))...)
	// Output:
	// runtimeclasses <nil>
	// vm kata 60s
}
