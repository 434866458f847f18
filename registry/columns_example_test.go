package registry_test

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/registry"
)

// A kind's Definition declares what kubectl get shows of its objects.
func ExampleColumns() {
	columns := registry.Columns[*corev1.ConfigMap]{
		Definitions: []metav1.TableColumnDefinition{
			registry.NameColumn(),
			{Name: "Keys", Type: "integer", Description: "How much is in it."},
			registry.AgeColumn(),
		},
		Cells: func(c *corev1.ConfigMap, now time.Time) []any {
			return []any{c.Name, int64(len(c.Data)), registry.Age(c.CreationTimestamp, now)}
		},
	}
	now := time.Now()
	fmt.Println(columns.Cells(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "settings", CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))},
		Data:       map[string]string{"color": "blue"},
	}, now)...)
	// Output: settings 1 60m
}
