package storage_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/registrytest"
	"github.com/keelson-dev/keelson/registry/storage"
)

func TestKinds(t *testing.T) { registrytest.Kinds(t, storage.Kinds()) }

const (
	namePart      = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
	subdomainRule = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)

type classChange = registrytest.Change[*storagev1.StorageClass]

func class() *storagev1.StorageClass {
	return &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "fast"}, Provisioner: "Example.com/disk",
		Parameters: map[string]string{"type": "ssd"},
	}
}

// topologies changes the allowed topologies to terms of expressions.
func topologies(terms ...[]corev1.TopologySelectorLabelRequirement) func(*storagev1.StorageClass) {
	return func(c *storagev1.StorageClass) {
		for _, expressions := range terms {
			c.AllowedTopologies = append(c.AllowedTopologies, corev1.TopologySelectorTerm{MatchLabelExpressions: expressions})
		}
	}
}

func TestStorageClass(t *testing.T) {
	k := registrytest.Find(t, storage.Kinds(), "storageclasses")
	if k.Namespaced || k.Rules.ConditionalUpdate || k.Rules.CreateOnUpdate {
		t.Errorf("namespaced %t, conditional update %t, create on update %t", k.Namespaced, k.Rules.ConditionalUpdate, k.Rules.CreateOnUpdate)
	}
	type expression = corev1.TopologySelectorLabelRequirement
	zone := func(values ...string) []expression { return []expression{{Key: "zone", Values: values}} }
	many := map[string]string{}
	for i := range 512 {
		many[fmt.Sprint(i)] = ""
	}
	more := map[string]string{"x": ""}
	for key := range many {
		more[key] = ""
	}
	changes := []classChange{
		{Name: "topologies", To: topologies(zone("a", "b"), zone("a"), []expression{{Key: "zone", Values: []string{"a"}}, {Key: "host", Values: []string{"x"}}})},
		{Name: "a topology without values", To: topologies(zone()), Refused: []string{
			`allowedTopologies[0].matchLabelExpressions[0].values: Required value`}},
		{Name: "a value twice", To: topologies(zone("a", "b", "a")), Refused: []string{
			`allowedTopologies[0].matchLabelExpressions[0].values[2]: Duplicate value: "a"`}},
		{Name: "a bad key", To: topologies([]expression{{Key: "a b", Values: []string{"x"}}}), Refused: []string{
			`allowedTopologies[0].matchLabelExpressions[0].key: Invalid value: "a b": ` + namePart}},
		{Name: "a key twice", To: topologies(append(zone("a"), zone("b")...)), Refused: []string{
			`allowedTopologies[0].matchLabelExpressions[1].key: Duplicate value: "zone"`}},
		{Name: "a term twice", To: topologies(zone("a", "b"), zone("c"), zone("b", "a")), Refused: []string{
			`allowedTopologies[2].matchLabelExpressions: Duplicate value: ""`}},
		{Name: "an empty term", To: topologies(nil, zone("a")), Refused: []string{
			`allowedTopologies[0].matchLabelExpressions: Duplicate value: ""`}},
		{Name: "options", To: func(c *storagev1.StorageClass) {
			c.MountOptions, c.AllowVolumeExpansion = []string{"ro"}, new(true)
		}},
	}
	registrytest.Create(t, k, class(), append(changes,
		classChange{Name: "no parameters", To: func(c *storagev1.StorageClass) { c.Parameters = nil }},
		classChange{Name: "no provisioner", To: func(c *storagev1.StorageClass) {
			c.Provisioner, c.VolumeBindingMode = "", new(storagev1.VolumeBindingMode("x"))
		}, Refused: []string{
			`volumeBindingMode: Unsupported value: "x": supported values: "Immediate", "WaitForFirstConsumer"`,
			`provisioner: Required value`}},
		classChange{Name: "a bad provisioner", To: func(c *storagev1.StorageClass) { c.Provisioner = "A B" }, Refused: []string{
			`provisioner: Invalid value: "a b": ` + namePart}},
		classChange{Name: "an empty parameter", To: func(c *storagev1.StorageClass) { c.Parameters[""] = "x" }, Refused: []string{
			`parameters: Invalid value: "": field can not be empty.`}},
		classChange{Name: "512 parameters", To: func(c *storagev1.StorageClass) { c.Parameters = many }},
		classChange{Name: "513 parameters", To: func(c *storagev1.StorageClass) { c.Parameters = more }, Refused: []string{
			`parameters: Too long: may not be more than 512 bytes`}},
		classChange{Name: "long parameters", To: func(c *storagev1.StorageClass) {
			c.Parameters = map[string]string{"key": strings.Repeat("x", 256<<10-3)}
		}},
		classChange{Name: "longer parameters", To: func(c *storagev1.StorageClass) {
			c.Parameters = map[string]string{"key": strings.Repeat("x", 256<<10-2)}
		}, Refused: []string{`parameters: Too long: may not be more than 262144 bytes`}},
		classChange{Name: "retained", To: func(c *storagev1.StorageClass) {
			c.ReclaimPolicy, c.VolumeBindingMode = new(corev1.PersistentVolumeReclaimRetain), new(storagev1.VolumeBindingWaitForFirstConsumer)
		}},
		classChange{Name: "an empty policy", To: func(c *storagev1.StorageClass) { c.ReclaimPolicy = new(corev1.PersistentVolumeReclaimPolicy("")) }},
		classChange{Name: "recycled", To: func(c *storagev1.StorageClass) { c.ReclaimPolicy = new(corev1.PersistentVolumeReclaimRecycle) }, Refused: []string{
			`reclaimPolicy: Unsupported value: "Recycle": supported values: "Delete", "Retain"`}},
	))
	registrytest.Update(t, k, "", class(), append(changes,
		classChange{Name: "another provisioner", To: func(c *storagev1.StorageClass) { c.Provisioner = "a b" }, Refused: []string{
			`provisioner: Invalid value: "a b": ` + namePart,
			`provisioner: Invalid value: null: field is immutable`}},
		classChange{Name: "all else", To: func(c *storagev1.StorageClass) {
			c.Provisioner, c.Parameters = "", nil
			c.ReclaimPolicy, c.VolumeBindingMode = new(corev1.PersistentVolumeReclaimRetain), new(storagev1.VolumeBindingWaitForFirstConsumer)
		}, Refused: []string{
			`provisioner: Required value`,
			`provisioner: Invalid value: null: field is immutable`,
			`parameters: Invalid value: null: field is immutable`,
			`reclaimPolicy: Invalid value: null: field is immutable`,
			`volumeBindingMode: Invalid value: null: field is immutable`}},
	))
	bad := class()
	bad.Provisioner, bad.Parameters = "", map[string]string{"": ""}
	if errs := registrytest.Replace(k, "", bad.DeepCopy(), bad); len(errs) < 2 || errs[0].Error() != `provisioner: Required value` {
		t.Errorf("a class that was never valid: %v", errs)
	}
}

func TestStorageClassDefaults(t *testing.T) {
	k := registrytest.Find(t, storage.Kinds(), "storageclasses")
	c := class()
	k.Rules.Default(c)
	if *c.ReclaimPolicy != "Delete" || *c.VolumeBindingMode != "Immediate" || c.AllowVolumeExpansion != nil {
		t.Errorf("defaults %+v", c)
	}
	c = class()
	c.ReclaimPolicy, c.VolumeBindingMode = new(corev1.PersistentVolumeReclaimRetain), new(storagev1.VolumeBindingWaitForFirstConsumer)
	k.Rules.Default(c)
	if *c.ReclaimPolicy != "Retain" || *c.VolumeBindingMode != "WaitForFirstConsumer" {
		t.Errorf("what is set becomes %+v", c)
	}
}

func TestStorageClassWithoutMode(t *testing.T) {
	c := class()
	c.ReclaimPolicy = new(corev1.PersistentVolumeReclaimDelete)
	errs := registrytest.Find(t, storage.Kinds(), "storageclasses").Rules.Validate(c)
	if len(errs) != 1 || errs[0].Error() != "volumeBindingMode: Required value" {
		t.Errorf("what the defaults fill in is not required: %v", errs)
	}
}

func TestStorageClassWarnings(t *testing.T) {
	k := registrytest.Find(t, storage.Kinds(), "storageclasses")
	c := class()
	c.AllowedTopologies = []corev1.TopologySelectorTerm{{}, {MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{
		{Key: "topology.kubernetes.io/zone"}, {Key: "failure-domain.beta.kubernetes.io/zone"},
	}}}
	var told []string
	ctx := registry.WithWarnings(t.Context(), func(text string) { told = append(told, text) })
	if err := k.Rules.Guard(ctx, c, nil); err != nil {
		t.Error(err)
	}
	want := []string{`allowedTopologies[1].matchLabelExpressions[1].key: deprecated since v1.17; use "topology.kubernetes.io/zone" instead`}
	if !reflect.DeepEqual(told, want) {
		t.Errorf("warnings %q, want %q", told, want)
	}
}

// TestDefaultClass: a list marks the class that is in effect, an object by itself is never marked.
func TestDefaultClass(t *testing.T) {
	k := registrytest.Find(t, storage.Kinds(), "storageclasses")
	now := time.Now()
	made := func(name string, age time.Duration, annotation, value string) registry.Object {
		c := class()
		c.Name, c.CreationTimestamp = name, metav1.NewTime(now.Add(-age))
		if annotation != "" {
			c.Annotations = map[string]string{annotation: value}
		}
		return c
	}
	const mark, beta = "storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"
	for name, tt := range map[string]struct {
		all  []registry.Object
		want string
	}{
		"none":      {[]registry.Object{made("a", 1, "", ""), made("b", 1, mark, "false"), made("c", 1, beta, "yes")}, ""},
		"beta":      {[]registry.Object{made("a", 1, "", ""), made("b", 1, beta, "true")}, "b"},
		"newest":    {[]registry.Object{made("a", 2, mark, "true"), made("b", 1, mark, "true"), made("c", 3, mark, "true")}, "b"},
		"same time": {[]registry.Object{made("b", 1, mark, "true"), made("a", 1, mark, "true"), made("c", 1, mark, "true")}, "a"},
	} {
		cells := k.Columns.Among(tt.all)
		for _, obj := range tt.all {
			shown := obj.GetName()
			if shown == tt.want {
				shown += " (default)"
			}
			if got := cells(obj, now)[0]; got != shown {
				t.Errorf("%s: %s is shown as %v", name, obj.GetName(), got)
			}
			if got := k.Columns.Cells(obj, now); got[0] != obj.GetName() || !reflect.DeepEqual(got[1:], cells(obj, now)[1:]) {
				t.Errorf("%s: %s is shown as %v by itself", name, obj.GetName(), got)
			}
		}
	}
}
