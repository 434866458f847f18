package admissionregistration

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/registry"
)

func columns[T registry.Object](webhooks func(T) int) registry.Columns[T] {
	return registry.Columns[T]{
		Definitions: []metav1.TableColumnDefinition{
			registry.NameColumn(),
			{Name: "Webhooks", Type: "integer", Description: "Webhooks indicates the number of webhooks registered in this configuration"},
			registry.AgeColumn(),
		},
		Cells: func(c T, now time.Time) []any {
			return []any{c.GetName(), int64(webhooks(c)), registry.Age(c.GetCreationTimestamp(), now)}
		},
	}
}
