package scheduling

import (
	"time"

	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/registry"
)

func priorityClassColumns() registry.Columns[*schedulingv1.PriorityClass] {
	doc := schedulingv1.PriorityClass{}.SwaggerDoc()
	return registry.Columns[*schedulingv1.PriorityClass]{
		Definitions: []metav1.TableColumnDefinition{
			registry.NameColumn(),
			{Name: "Value", Type: "integer", Description: doc["value"]},
			{Name: "Global-Default", Type: "boolean", Description: doc["globalDefault"]},
			registry.AgeColumn(),
			registry.TextColumn("PreemptionPolicy", doc["preemptionPolicy"]),
		},
		Cells: func(c *schedulingv1.PriorityClass, now time.Time) []any {
			preemption := ""
			if c.PreemptionPolicy != nil {
				preemption = string(*c.PreemptionPolicy)
			}
			return []any{c.Name, int64(c.Value), c.GlobalDefault, registry.Age(c.CreationTimestamp, now), preemption}
		},
	}
}
