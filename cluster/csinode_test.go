package cluster_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/cluster"
)

// csiNode is the CSINode that a kubelet creates, with a driver.
func csiNode(owner *corev1.Node) *storagev1.CSINode {
	return &storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{
			Name:            owner.Name,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: owner.Name, UID: owner.UID}},
		},
		Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{
			Name: "disk.example.com", NodeID: "i-1", TopologyKeys: []string{"example.com/zone"},
			Allocatable: &storagev1.VolumeNodeResources{Count: new(int32(3))},
		}}},
	}
}

// TestCSINode: a kubelet may write the CSINode of its own node only; it is deleted with the node.
func TestCSINode(t *testing.T) {
	c := start(t, cluster.Options{})
	ctx, admin := t.Context(), clientset(t, c.Config())
	own := clientset(t, c.ConfigFor(authn.NodeIdentity("node-x"))).StorageV1().CSINodes()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	node, err := admin.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-x"}}, metav1.CreateOptions{})
	check(err)
	want := csiNode(node)
	sent := want.DeepCopy()
	sent.Status.StorageHealth = []storagev1.StorageHealth{{Name: "disk.example.com"}} // not reported by anything
	made, err := own.Create(ctx, sent, metav1.CreateOptions{})
	check(err)
	if !reflect.DeepEqual(made.Spec, want.Spec) || made.Status.StorageHealth != nil || made.Generation != 0 || len(made.OwnerReferences) != 1 {
		t.Errorf("created: %+v", made)
	}
	patched, err := own.Patch(ctx, "node-x", types.StrategicMergePatchType,
		[]byte(`{"spec":{"drivers":[{"name":"disk.example.com","allocatable":{"count":5}},{"name":"b","nodeID":"i-2"}]}}`), metav1.PatchOptions{})
	check(err)
	if d := patched.Spec.Drivers; len(d) != 2 {
		t.Errorf("patched: %+v", d)
	}
	for name, test := range map[string]struct {
		change  func(n *storagev1.CSINode)
		refused func(error) bool
		message string
	}{
		"another node ID": {
			func(n *storagev1.CSINode) { n.Spec = *want.Spec.DeepCopy(); n.Spec.Drivers[0].NodeID = "i-9" }, apierrors.IsInvalid,
			`CSINode.storage.k8s.io "node-x" is invalid: spec.drivers: Invalid value: {"Name":"disk.example.com","NodeID":"i-9","TopologyKeys":["example.com/zone"],"Allocatable":null}: field is immutable`,
		},
		"no version": {
			func(n *storagev1.CSINode) { n.ResourceVersion = "" }, apierrors.IsInvalid,
			`csinodes.storage.k8s.io "node-x" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update`,
		},
	} {
		changed := patched.DeepCopy()
		test.change(changed)
		if _, err := own.Update(ctx, changed, metav1.UpdateOptions{}); !test.refused(err) || err.Error() != test.message {
			t.Errorf("%s: %v", name, err)
		}
	}
	foreign := csiNode(node)
	foreign.Name = "node-y"
	_, create := own.Create(ctx, foreign, metav1.CreateOptions{})
	_, list := own.List(ctx, metav1.ListOptions{})
	_, status := own.UpdateStatus(ctx, patched, metav1.UpdateOptions{})
	for name, err := range map[string]error{
		"create another": create, "list": list, "its status": status, "delete another": own.Delete(ctx, "node-y", metav1.DeleteOptions{}),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	reported, err := admin.StorageV1().CSINodes().Patch(ctx, "node-x", types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"a":"b"}},"spec":{"drivers":[]},"status":{"storageHealth":[{"name":"b"}]}}`), metav1.PatchOptions{}, "status")
	check(err)
	if len(reported.Spec.Drivers) != 2 || reported.Labels != nil || reported.Status.StorageHealth != nil {
		t.Errorf("by its status: %+v", reported)
	}
	table(t, admin.StorageV1().RESTClient().Get().Resource("csinodes").SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").Do(ctx).Raw)

	check(admin.CoreV1().Nodes().Delete(ctx, "node-x", metav1.DeleteOptions{}))
	eventually(t, "end of the CSINode", func() error {
		n, err := admin.StorageV1().CSINodes().Get(ctx, "node-x", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("%v, %w", n, err)
	})
}

// table checks that kubectl shows the number of drivers.
func table(t *testing.T, answer func() ([]byte, error)) {
	t.Helper()
	data, err := answer()
	if err != nil {
		t.Fatal(err)
	}
	var got metav1.Table
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	var columns []string
	for _, c := range got.ColumnDefinitions {
		columns = append(columns, c.Name)
	}
	if len(got.Rows) != 1 || fmt.Sprint(columns) != "[Name Drivers Age]" || fmt.Sprint(got.Rows[0].Cells[:2]) != "[node-x 2]" {
		t.Errorf("%v %v", columns, got.Rows)
	}
	if _, err := time.ParseDuration(fmt.Sprint(got.Rows[0].Cells[2])); err != nil {
		t.Errorf("an age: %v", err)
	}
}
