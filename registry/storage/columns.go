package storage

import (
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
