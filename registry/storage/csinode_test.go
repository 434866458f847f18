package storage_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/registry/registrytest"
	"github.com/keelson-dev/keelson/registry/storage"
)

type change = registrytest.Change[*storagev1.CSINode]

// driver changes the first driver.
func driver(to func(*storagev1.CSINodeDriver)) func(*storagev1.CSINode) {
	return func(n *storagev1.CSINode) { to(&n.Spec.Drivers[0]) }
}

func node() *storagev1.CSINode {
	return &storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{Name: "node-0"},
		Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{
			{Name: "a.example.com", NodeID: "i-1", TopologyKeys: []string{"example.com/zone", "region"}, Allocatable: &storagev1.VolumeNodeResources{Count: new(int32(3))}},
			{Name: "B", NodeID: "i-2"},
		}},
	}
}

func TestCSINode(t *testing.T) {
	k := registrytest.Find(t, storage.Kinds(), "csinodes")
	const subdomain = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
	const name = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
	long := strings.Repeat("a", 64)
	id := strings.Repeat("x", 257)
	changes := []change{
		{Name: "no drivers", To: func(n *storagev1.CSINode) { n.Spec.Drivers = nil }},
		{Name: "no count", To: driver(func(d *storagev1.CSINodeDriver) { d.Allocatable.Count = nil })},
		{Name: "a count of zero", To: driver(func(d *storagev1.CSINodeDriver) { d.Allocatable.Count = new(int32(0)) })},
		{Name: "a negative count", To: driver(func(d *storagev1.CSINodeDriver) { d.Allocatable.Count = new(int32(-1)) }), Refused: []string{
			`spec.drivers[0].allocatable.count: Invalid value: -1: must be greater than or equal to 0`}},
		{Name: "no name", To: driver(func(d *storagev1.CSINodeDriver) { d.Name = "" }), Refused: []string{
			`spec.drivers[0].name: Required value`}},
		{Name: "a bad name", To: driver(func(d *storagev1.CSINodeDriver) { d.Name = "a_b" }), Refused: []string{
			`spec.drivers[0].name: Invalid value: "a_b": ` + subdomain}},
		{Name: "a long name", To: driver(func(d *storagev1.CSINodeDriver) { d.Name = long }), Refused: []string{
			`spec.drivers[0].name: Too long: may not be more than 63 bytes`}},
		{Name: "a name twice", To: driver(func(d *storagev1.CSINodeDriver) { d.Name, d.NodeID, d.TopologyKeys = "B", "i-2", nil }), Refused: []string{
			`spec.drivers[1].name: Duplicate value: "B"`}},
	}
	registrytest.Create(t, k, node(), append(changes,
		change{Name: "a status", To: func(n *storagev1.CSINode) { n.Status = health("B", "Slow") }},
		change{Name: "a name of 63 bytes", To: driver(func(d *storagev1.CSINodeDriver) { d.Name = long[1:] })},
		change{Name: "a node ID of 256 bytes", To: driver(func(d *storagev1.CSINodeDriver) { d.NodeID = id[1:] })},
		change{Name: "a longer node ID", To: driver(func(d *storagev1.CSINodeDriver) { d.NodeID = id }), Refused: []string{
			`spec.drivers[0].nodeID: Invalid value: "` + id + `": must be 256 characters or less`}},
		change{Name: "no node ID", To: driver(func(d *storagev1.CSINodeDriver) { d.NodeID = "" }), Refused: []string{
			`spec.drivers[0].nodeID: Required value`}},
		change{Name: "a topology key twice", To: driver(func(d *storagev1.CSINodeDriver) { d.TopologyKeys = []string{"a", "a"} }), Refused: []string{
			`spec.drivers[0]: Duplicate value: "a"`}},
		change{Name: "an empty topology key", To: driver(func(d *storagev1.CSINodeDriver) { d.TopologyKeys = []string{""} }), Refused: []string{
			`spec.drivers[0]: Required value`,
			`spec.drivers[0]: Invalid value: "": name part must be non-empty`,
			`spec.drivers[0]: Invalid value: "": ` + name}},
		change{Name: "a bad topology key", To: driver(func(d *storagev1.CSINodeDriver) { d.TopologyKeys = []string{"a b"} }), Refused: []string{
			`spec.drivers[0]: Invalid value: "a b": ` + name}},
	))
	registrytest.Update(t, k, "", node(), append(changes,
		change{Name: "another driver", To: func(n *storagev1.CSINode) {
			n.Spec.Drivers = append(n.Spec.Drivers, storagev1.CSINodeDriver{Name: "c", NodeID: "i-3"})
		}},
		change{Name: "one driver less", To: func(n *storagev1.CSINode) { n.Spec.Drivers = n.Spec.Drivers[1:] }},
		change{Name: "more is allocatable", To: driver(func(d *storagev1.CSINodeDriver) { d.Allocatable.Count = new(int32(9)) })},
		change{Name: "all is allocatable", To: driver(func(d *storagev1.CSINodeDriver) { d.Allocatable = nil })},
		change{Name: "another node ID", To: driver(func(d *storagev1.CSINodeDriver) { d.NodeID = "i-9" }), Refused: []string{
			`spec.drivers: Invalid value: {"Name":"a.example.com","NodeID":"i-9","TopologyKeys":["example.com/zone","region"],"Allocatable":null}: field is immutable`}},
		change{Name: "other topology keys", To: func(n *storagev1.CSINode) { n.Spec.Drivers[1].TopologyKeys = []string{"a"} }, Refused: []string{
			`spec.drivers: Invalid value: {"Name":"B","NodeID":"i-2","TopologyKeys":["a"],"Allocatable":null}: field is immutable`}},
		change{Name: "a status", To: func(n *storagev1.CSINode) { n.Status = health("B", "Slow") }},
	))
}

func health(driver, reason string) storagev1.CSINodeStatus {
	return storagev1.CSINodeStatus{StorageHealth: []storagev1.StorageHealth{{Name: driver, HealthConditions: []storagev1.StorageHealthCondition{
		{Status: storagev1.StorageDegraded, Reason: reason},
	}}}}
}

// TestUnreported: storage health is off by default: no write by a node stores a status or a generation.
func TestUnreported(t *testing.T) {
	k := registrytest.Find(t, storage.Kinds(), "csinodes")
	old, n := node(), node()
	n.Status = health("B", "Slow")
	k.Rules.PrepareCreate(t.Context(), n)
	if n.Generation != 0 || n.Status.StorageHealth != nil {
		t.Errorf("created: %+v", n)
	}
	n.Status = health("B", "Slow")
	n.Spec.Drivers = nil
	k.Rules.PrepareUpdate(t.Context(), n, old)
	if n.Generation != 0 || n.Status.StorageHealth != nil || n.Spec.Drivers != nil {
		t.Errorf("updated: %+v", n)
	}
	n.Status, n.Labels, n.Finalizers = health("B", "Slow"), map[string]string{"a": "b"}, []string{"example.com/a"}
	k.Sub.Views["status"].PrepareUpdate(t.Context(), n, old)
	if n.Status.StorageHealth != nil || len(n.Spec.Drivers) != 2 || n.Labels != nil || n.Finalizers != nil {
		t.Errorf("updated by its status: %+v", n)
	}
	old.Status = health("B", "Slow")
	n.Status = health("B", "Broken")
	k.Sub.Views["status"].PrepareUpdate(t.Context(), n, old)
	if n.Status.StorageHealth[0].HealthConditions[0].Reason != "Broken" {
		t.Errorf("stored by another server: %+v", n)
	}
	if !slices.Equal(k.Sub.Views["status"].Resets, []string{"metadata", "spec"}) {
		t.Errorf("resets %v", k.Sub.Views["status"].Resets)
	}
}

// condition changes the first condition of the first driver.
func condition(to func(*storagev1.StorageHealthCondition)) func(*storagev1.CSINode) {
	return func(n *storagev1.CSINode) { to(&n.Status.StorageHealth[0].HealthConditions[0]) }
}

func TestStorageHealth(t *testing.T) {
	k := registrytest.Find(t, storage.Kinds(), "csinodes")
	reported := node()
	reported.Status = health("B", "Slow")
	at := `status.storageHealth[0].healthConditions[0].`
	const reason = "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')"
	registrytest.Update(t, k, "status", reported, []change{
		{Name: "good", To: condition(func(c *storagev1.StorageHealthCondition) {
			c.Status, c.AccessMode, c.VolumeMode = storagev1.StorageUnreachable, new(corev1.ReadWriteOncePod), new(corev1.PersistentVolumeBlock)
			c.Reason, c.Message = strings.Repeat("r", 256), strings.Repeat("m", 1024)
		})},
		{Name: "a driver twice", To: func(n *storagev1.CSINode) {
			n.Status.StorageHealth = append(n.Status.StorageHealth, storagev1.StorageHealth{Name: "B"})
		}, Refused: []string{`status.storageHealth[1]: Duplicate value: "B"`}},
		{Name: "no driver", To: func(n *storagev1.CSINode) { n.Status.StorageHealth[0].Name = "" }, Refused: []string{
			`status.storageHealth[0].name: Required value`}},
		{Name: "16 conditions", To: func(n *storagev1.CSINode) {
			n.Status.StorageHealth[0].HealthConditions = slices.Repeat(n.Status.StorageHealth[0].HealthConditions, 16)
		}},
		{Name: "17 conditions", To: func(n *storagev1.CSINode) {
			n.Status.StorageHealth[0].HealthConditions = make([]storagev1.StorageHealthCondition, 17)
		}, Refused: []string{`status.storageHealth[0].healthConditions: Too many: 17: must have at most 16 items`}},
		{Name: "another status", To: condition(func(c *storagev1.StorageHealthCondition) { c.Status = "Good" }), Refused: []string{
			at + `status: Unsupported value: "Good": supported values: "StorageDegraded", "StorageUnreachable"`}},
		{Name: "no reason", To: condition(func(c *storagev1.StorageHealthCondition) { c.Reason = "" }), Refused: []string{
			at + `reason: Required value`}},
		{Name: "a bad reason", To: condition(func(c *storagev1.StorageHealthCondition) { c.Reason = "no words" }), Refused: []string{
			at + `reason: Invalid value: "no words": ` + reason}},
		{Name: "a long reason", To: condition(func(c *storagev1.StorageHealthCondition) { c.Reason = strings.Repeat("r", 257) }), Refused: []string{
			at + `reason: Too long: may not be more than 256 bytes`}},
		{Name: "a long message", To: condition(func(c *storagev1.StorageHealthCondition) { c.Message = strings.Repeat("m", 1025) }), Refused: []string{
			at + `message: Too long: may not be more than 1024 bytes`}},
		{Name: "another access mode", To: condition(func(c *storagev1.StorageHealthCondition) { c.AccessMode = new(corev1.PersistentVolumeAccessMode("x")) }), Refused: []string{
			at + `accessMode: Unsupported value: "x": supported values: "ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"`}},
		{Name: "another volume mode", To: condition(func(c *storagev1.StorageHealthCondition) { c.VolumeMode = new(corev1.PersistentVolumeMode("x")) }), Refused: []string{
			at + `volumeMode: Unsupported value: "x": supported values: "Filesystem", "Block"`}},
	})
}

// A kubelet reports the drivers of its node; kubectl shows their number.
func Example() {
	k := storage.Kinds()[1]
	n := node()
	n.UID, n.CreationTimestamp = types.UID("1"), metav1.NewTime(time.Unix(0, 0))
	fmt.Println(k.Plural, k.Rules.Validate(n).ToAggregate())
	fmt.Println(k.Columns.Cells(n, time.Unix(60, 0))...)
	// Output:
	// csinodes <nil>
	// node-0 2 60s
}
