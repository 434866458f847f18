package storage_test

import (
	"reflect"
	"strings"
	"testing"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/registrytest"
	"github.com/keelson-dev/keelson/registry/storage"
)

func capacity() *storagev1.CSIStorageCapacity {
	return &storagev1.CSIStorageCapacity{
		ObjectMeta:   metav1.ObjectMeta{Name: "c", Namespace: "ns"},
		NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{"zone": "a"}}, StorageClassName: "fast",
	}
}

func TestCSIStorageCapacity(t *testing.T) {
	k := registrytest.Find(t, storage.Kinds(), "csistoragecapacities")
	if !k.Namespaced || k.Rules.Deletion.ReturnsObject {
		t.Errorf("namespaced %t, deletion returns the object %t", k.Namespaced, k.Rules.Deletion.ReturnsObject)
	}
	type change = registrytest.Change[*storagev1.CSIStorageCapacity]
	const value = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
	changes := []change{
		{Name: "sizes", To: func(c *storagev1.CSIStorageCapacity) {
			c.Capacity, c.MaximumVolumeSize = new(resource.MustParse("0")), new(resource.MustParse("-1"))
		}},
		{Name: "a negative capacity", To: func(c *storagev1.CSIStorageCapacity) { c.Capacity = new(resource.MustParse("-1Gi")) }, Refused: []string{
			`capacity: Invalid value: "-1Gi": must be greater than or equal to 0`}},
	}
	invalid := func(c *storagev1.CSIStorageCapacity) {
		c.NodeTopology.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "In", Values: []string{"a b"}}}
	}
	registrytest.Create(t, k, capacity(), append(changes,
		change{Name: "no topology", To: func(c *storagev1.CSIStorageCapacity) { c.NodeTopology = nil }},
		change{Name: "a bad topology", To: invalid, Refused: []string{
			`nodeTopology.matchExpressions[0].values[0]: Invalid value: "a b": ` + value}},
		change{Name: "a bad class", To: func(c *storagev1.CSIStorageCapacity) { c.StorageClassName = "" }, Refused: []string{
			`storageClassName: Invalid value: "": ` + subdomainRule}},
	))
	registrytest.Update(t, k, "", capacity(), append(changes,
		change{Name: "another topology", To: func(c *storagev1.CSIStorageCapacity) { c.NodeTopology = nil }, Refused: []string{
			`nodeTopology: Invalid value: null: field is immutable`}},
		change{Name: "another class", To: func(c *storagev1.CSIStorageCapacity) { c.StorageClassName = "slow" }, Refused: []string{
			`storageClassName: Invalid value: "slow": field is immutable`}},
	))
	old := capacity()
	invalid(old)
	if errs := registrytest.Replace(k, "", old.DeepCopy(), old); len(errs) > 0 {
		t.Errorf("a selector of older rules: %v", errs)
	}
	errs := registrytest.Replace(k, "", old.DeepCopy(), capacity())
	if len(errs) != 2 || !strings.HasPrefix(errs[0].Error(), `nodeTopology.matchExpressions[0].values[0]: Invalid value: "a b": `) {
		t.Errorf("a bad topology in place of a good one: %v", errs)
	}
}

func TestCSIStorageCapacityWarnings(t *testing.T) {
	k := registrytest.Find(t, storage.Kinds(), "csistoragecapacities")
	const zone = "failure-domain.beta.kubernetes.io/zone"
	for name, tt := range map[string]struct {
		nodes *metav1.LabelSelector
		want  []string
	}{
		"none": {},
		"all": {&metav1.LabelSelector{
			MatchLabels:      map[string]string{zone: "a", "beta.kubernetes.io/os": "linux", "x": "y"},
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "x"}, {Key: "node-role.kubernetes.io/master"}},
		}, []string{
			`nodeTopology.matchExpressions[1].key: node-role.kubernetes.io/master is use "node-role.kubernetes.io/control-plane" instead`,
			`nodeTopology.matchLabels.beta.kubernetes.io/os: deprecated since v1.14; use "kubernetes.io/os" instead`,
			`nodeTopology.matchLabels.` + zone + `: deprecated since v1.17; use "topology.kubernetes.io/zone" instead`,
		}},
	} {
		c := capacity()
		c.NodeTopology = tt.nodes
		var told []string
		if err := k.Rules.Guard(registry.WithWarnings(t.Context(), func(text string) { told = append(told, text) }), c, nil); err != nil {
			t.Error(err)
		}
		if !reflect.DeepEqual(told, tt.want) {
			t.Errorf("%s: warnings %q", name, told)
		}
	}
}

func TestVolumeAttributesClass(t *testing.T) {
	k := registrytest.Find(t, storage.Kinds(), "volumeattributesclasses")
	good := &storagev1.VolumeAttributesClass{
		ObjectMeta: metav1.ObjectMeta{Name: "gold"}, DriverName: "Disk.example.com", Parameters: map[string]string{"iops": "100"},
	}
	type change = registrytest.Change[*storagev1.VolumeAttributesClass]
	none := change{Name: "no parameters", To: func(c *storagev1.VolumeAttributesClass) { c.Parameters = nil }, Refused: []string{
		`parameters: Required value: must contain at least one key/value pair`}}
	registrytest.Create(t, k, good, []change{
		none,
		{Name: "no driver", To: func(c *storagev1.VolumeAttributesClass) { c.DriverName, c.Parameters = "", map[string]string{"": ""} }, Refused: []string{
			`driverName: Required value`,
			`parameters: Invalid value: "": field can not be empty.`}},
		{Name: "a bad driver", To: func(c *storagev1.VolumeAttributesClass) { c.DriverName = "A B" }, Refused: []string{
			`driverName: Invalid value: "a b": ` + namePart}},
		{Name: "long parameters", To: func(c *storagev1.VolumeAttributesClass) { c.Parameters["x"] = strings.Repeat("x", 256<<10) }, Refused: []string{
			`parameters: Too long: may not be more than 262144 bytes`}},
	})
	none.Refused = append([]string{`parameters: Forbidden: updates to parameters are forbidden.`}, none.Refused...)
	registrytest.Update(t, k, "", good, []change{
		none,
		{Name: "another driver", To: func(c *storagev1.VolumeAttributesClass) { c.DriverName = "x" }, Refused: []string{
			`driverName: Forbidden: updates to driverName are forbidden.`}},
		{Name: "labels", To: func(c *storagev1.VolumeAttributesClass) { c.Labels = map[string]string{"a": "b"} }},
	})
}
