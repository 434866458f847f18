package csi

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
)

const (
	// nodeIDs is the annotation of nodes with what drivers call them.
	nodeIDs = "csi.volume.kubernetes.io/nodeid"
	// migrated is the annotation of CSINodes with the plugins of upstream's that drivers have taken over.
	migrated = "storage.alpha.kubernetes.io/migrated-plugins"
)

func migratedPlugins() string {
	return "kubernetes.io/aws-ebs,kubernetes.io/azure-disk,kubernetes.io/azure-file,kubernetes.io/cinder,kubernetes.io/gce-pd," +
		"kubernetes.io/portworx-volume,kubernetes.io/vsphere-volume"
}

func (d *Drivers) csiNodeTarget() client.Target {
	return client.Target{Resource: storagev1.SchemeGroupVersion.WithResource("csinodes"), Name: d.node}
}

// ensureCSINode makes the node's CSINode, unless there is one.
func (d *Drivers) ensureCSINode(ctx context.Context) error {
	_, err := d.in.Client.Get(ctx, d.csiNodeTarget())
	if !apierrors.IsNotFound(err) {
		return err
	}
	node, err := d.readNode(ctx)
	if err != nil {
		return err
	}
	_, err = d.in.Client.Create(ctx, d.csiNodeTarget(), &storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{
			Name: d.node, Annotations: map[string]string{migrated: migratedPlugins()},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}},
		},
		Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{}},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// publishDriver says in the node and its CSINode what a driver says of the node.
func (d *Drivers) publishDriver(ctx context.Context, name string, info *csispec.NodeGetInfoResponse) error {
	if info.GetNodeId() == "" {
		return fmt.Errorf("error adding CSI driver node info: nodeID must not be empty")
	}
	node, err := d.readNode(ctx)
	if err != nil {
		return err
	}
	change, err := nodeChange(node, name, info)
	if err != nil {
		return fmt.Errorf("error updating Node object with CSI driver node info: %w", err)
	}
	if change != nil {
		patch := client.Patch{Type: types.StrategicMergePatchType, Data: change}
		if _, err := d.in.Client.Patch(ctx, d.nodeTarget(""), patch, metav1.PatchOptions{}); err != nil {
			return fmt.Errorf("error updating Node object with CSI driver node info: %w", err)
		}
	}
	return d.publishEntry(ctx, entry(name, info))
}

// publishEntry says in the CSINode what a driver says of the node. All but the number of volumes is immutable in an entry,
// so another one has to take its place, as if the driver had left in between.
func (d *Drivers) publishEntry(ctx context.Context, e storagev1.CSINodeDriver) error {
	err := d.changeCSINode(ctx, func(all []storagev1.CSINodeDriver) []storagev1.CSINodeDriver {
		return slices.DeleteFunc(slices.Clone(all), func(n storagev1.CSINodeDriver) bool {
			return n.Name == e.Name && (n.NodeID != e.NodeID || !slices.Equal(n.TopologyKeys, e.TopologyKeys))
		})
	})
	if err == nil {
		err = d.changeCSINode(ctx, func(all []storagev1.CSINodeDriver) []storagev1.CSINodeDriver { return withDriver(all, e) })
	}
	if err != nil {
		return fmt.Errorf("error updating CSINode object with CSI driver node info: %w", err)
	}
	return nil
}

// withdrawDriver takes a driver out of the CSINode and the node's annotation.
func (d *Drivers) withdrawDriver(ctx context.Context, name string) error {
	err := d.changeCSINode(ctx, func(all []storagev1.CSINodeDriver) []storagev1.CSINodeDriver {
		return slices.DeleteFunc(slices.Clone(all), func(n storagev1.CSINodeDriver) bool { return n.Name == name })
	})
	if err != nil {
		return err
	}
	node, err := d.readNode(ctx)
	if err != nil {
		return err
	}
	ids, err := idsOf(node)
	if err != nil || ids[name] == "" {
		return err
	}
	delete(ids, name)
	patch := client.Patch{Type: types.StrategicMergePatchType, Data: metadataPatch(nil, ids)}
	_, err = d.in.Client.Patch(ctx, d.nodeTarget(""), patch, metav1.PatchOptions{})
	return err
}

// changeCSINode updates the drivers of the CSINode, again if somebody else has.
func (d *Drivers) changeCSINode(ctx context.Context, change func([]storagev1.CSINodeDriver) []storagev1.CSINodeDriver) error {
	for {
		if err := d.ensureCSINode(ctx); err != nil {
			return err
		}
		now, err := client.As[*storagev1.CSINode](d.in.Client.Get(ctx, d.csiNodeTarget()))
		if err != nil {
			return err
		}
		next := now.DeepCopy()
		next.Spec.Drivers = change(now.Spec.Drivers)
		if fmt.Sprint(next.Spec) == fmt.Sprint(now.Spec) {
			return nil
		}
		_, err = d.in.Client.Update(ctx, d.csiNodeTarget(), next, metav1.UpdateOptions{})
		if !apierrors.IsConflict(err) {
			return err
		}
	}
}

// entry is what a CSINode says of a driver.
func entry(name string, info *csispec.NodeGetInfoResponse) storagev1.CSINodeDriver {
	e := storagev1.CSINodeDriver{Name: name, NodeID: info.GetNodeId(), TopologyKeys: slices.Sorted(maps.Keys(info.GetAccessibleTopology().GetSegments()))}
	if most := info.GetMaxVolumesPerNode(); most > 0 {
		e.Allocatable = &storagev1.VolumeNodeResources{Count: new(int32(min(most, math.MaxInt32)))} //nolint:gosec // bounded
	}
	return e
}

// withDriver returns the drivers with one, which replaces that of its name.
func withDriver(all []storagev1.CSINodeDriver, e storagev1.CSINodeDriver) []storagev1.CSINodeDriver {
	out := slices.Clone(all)
	for i := range out {
		if out[i].Name == e.Name {
			out[i] = e
			return out
		}
	}
	return append(out, e)
}

func idsOf(node *corev1.Node) (map[string]string, error) {
	ids := map[string]string{}
	if s := node.Annotations[nodeIDs]; s != "" {
		if err := json.Unmarshal([]byte(s), &ids); err != nil {
			return nil, fmt.Errorf("failed to parse node's %q annotation value (%q): %w", nodeIDs, s, err)
		}
	}
	return ids, nil
}

// nodeChange is the patch of a node after what a driver says of it, nil if there is nothing to change.
func nodeChange(node *corev1.Node, name string, info *csispec.NodeGetInfoResponse) ([]byte, error) {
	segments := info.GetAccessibleTopology().GetSegments()
	for _, key := range slices.Sorted(maps.Keys(segments)) {
		if had, ok := node.Labels[key]; ok && had != segments[key] {
			return nil, fmt.Errorf("detected topology value collision: driver reported %q:%q but existing label is %q:%q", key, segments[key], key, had)
		}
	}
	ids, err := idsOf(node)
	if err != nil {
		return nil, err
	}
	labelled := true
	for key := range segments {
		_, ok := node.Labels[key]
		labelled = labelled && ok
	}
	if ids[name] == info.GetNodeId() && labelled {
		return nil, nil
	}
	ids[name] = info.GetNodeId()
	return metadataPatch(segments, ids), nil
}

func metadataPatch(labels, ids map[string]string) []byte {
	type metadata struct {
		Labels      map[string]string  `json:"labels,omitempty"`
		Annotations map[string]*string `json:"annotations"`
	}
	annotations := map[string]*string{nodeIDs: nil}
	if len(ids) > 0 {
		encoded, _ := json.Marshal(ids) //nolint:errchkjson // strings marshal
		annotations[nodeIDs] = new(strings.TrimSpace(string(encoded)))
	}
	patch, _ := json.Marshal(map[string]metadata{"metadata": {labels, annotations}}) //nolint:errchkjson // strings marshal
	return patch
}
