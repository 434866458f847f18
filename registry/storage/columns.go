package storage

import (
	"strings"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/registry"
)

func csiNodeColumns() registry.Columns[*storagev1.CSINode] {
	return registry.Columns[*storagev1.CSINode]{
		Definitions: []metav1.TableColumnDefinition{
			registry.NameColumn(),
			{Name: "Drivers", Type: "integer", Description: "Drivers indicates the number of CSI drivers registered on the node"},
			registry.AgeColumn(),
		},
		Cells: func(n *storagev1.CSINode, now time.Time) []any {
			return []any{n.Name, int64(len(n.Spec.Drivers)), registry.Age(n.CreationTimestamp, now)}
		},
	}
}

func csiDriverColumns() registry.Columns[*storagev1.CSIDriver] {
	describe := storagev1.CSIDriverSpec{}.SwaggerDoc()
	boolean := func(name, of string) metav1.TableColumnDefinition {
		return metav1.TableColumnDefinition{Name: name, Type: "boolean", Description: describe[of]}
	}
	return registry.Columns[*storagev1.CSIDriver]{
		Definitions: []metav1.TableColumnDefinition{
			registry.NameColumn(),
			boolean("AttachRequired", "attachRequired"),
			boolean("PodInfoOnMount", "podInfoOnMount"),
			boolean("StorageCapacity", "storageCapacity"),
			registry.TextColumn("TokenRequests", describe["tokenRequests"]),
			boolean("RequiresRepublish", "requiresRepublish"),
			registry.TextColumn("Modes", describe["volumeLifecycleModes"]),
			registry.AgeColumn(),
		},
		Cells: func(d *storagev1.CSIDriver, now time.Time) []any {
			tokens, modes := "<unset>", "<none>"
			if d.Spec.TokenRequests != nil {
				tokens = join(d.Spec.TokenRequests, func(r storagev1.TokenRequest) string { return r.Audience })
			}
			if all := join(d.Spec.VolumeLifecycleModes, func(m storagev1.VolumeLifecycleMode) string { return string(m) }); all != "" {
				modes = all
			}
			return []any{
				d.Name, d.Spec.AttachRequired == nil || *d.Spec.AttachRequired, isTrue(d.Spec.PodInfoOnMount),
				isTrue(d.Spec.StorageCapacity), tokens, isTrue(d.Spec.RequiresRepublish), modes,
				registry.Age(d.CreationTimestamp, now),
			}
		},
	}
}

func join[T any](all []T, text func(T) string) string {
	texts := make([]string, len(all))
	for i, one := range all {
		texts[i] = text(one)
	}
	return strings.Join(texts, ",")
}

func attachmentColumns() registry.Columns[*storagev1.VolumeAttachment] {
	spec := storagev1.VolumeAttachmentSpec{}.SwaggerDoc()
	return registry.Columns[*storagev1.VolumeAttachment]{
		Definitions: []metav1.TableColumnDefinition{
			registry.NameColumn(),
			{Name: "Attacher", Type: "string", Format: "name", Description: spec["attacher"]},
			registry.TextColumn("PV", storagev1.VolumeAttachmentSource{}.SwaggerDoc()["persistentVolumeName"]),
			registry.TextColumn("Node", spec["nodeName"]),
			{Name: "Attached", Type: "boolean", Description: storagev1.VolumeAttachmentStatus{}.SwaggerDoc()["attached"]},
			registry.AgeColumn(),
		},
		Cells: func(a *storagev1.VolumeAttachment, now time.Time) []any {
			volume := ""
			if a.Spec.Source.PersistentVolumeName != nil {
				volume = *a.Spec.Source.PersistentVolumeName
			}
			return []any{a.Name, a.Spec.Attacher, volume, a.Spec.NodeName, a.Status.Attached, registry.Age(a.CreationTimestamp, now)}
		},
	}
}

func attributesClassColumns() registry.Columns[*storagev1.VolumeAttributesClass] {
	return registry.Columns[*storagev1.VolumeAttributesClass]{
		Definitions: []metav1.TableColumnDefinition{
			registry.NameColumn(),
			registry.TextColumn("DriverName", storagev1.VolumeAttributesClass{}.SwaggerDoc()["driverName"]),
			registry.AgeColumn(),
		},
		Cells: func(class *storagev1.VolumeAttributesClass, now time.Time) []any {
			return []any{class.Name, class.DriverName, registry.Age(class.CreationTimestamp, now)}
		},
	}
}
