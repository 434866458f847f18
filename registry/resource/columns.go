package resource

import (
	"strings"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/registry"
)

func nameAndAge[T registry.Object]() registry.Columns[T] {
	return registry.Columns[T]{
		Definitions: []metav1.TableColumnDefinition{registry.NameColumn(), registry.AgeColumn()},
		Cells: func(obj T, now time.Time) []any {
			return []any{obj.GetName(), registry.Age(obj.GetCreationTimestamp(), now)}
		},
	}
}

func claimColumns() registry.Columns[*resourcev1.ResourceClaim] {
	return registry.Columns[*resourcev1.ResourceClaim]{
		Definitions: []metav1.TableColumnDefinition{
			registry.NameColumn(),
			registry.TextColumn("State", "A summary of the current state (allocated, pending, reserved, etc.)."),
			registry.AgeColumn(),
		},
		Cells: func(c *resourcev1.ResourceClaim, now time.Time) []any {
			return []any{c.Name, claimState(c), registry.Age(c.CreationTimestamp, now)}
		},
	}
}

func claimState(c *resourcev1.ResourceClaim) string {
	var states []string
	if c.DeletionTimestamp != nil {
		states = append(states, "deleted")
	}
	switch {
	case c.Status.Allocation != nil:
		states = append(states, "allocated")
		if len(c.Status.ReservedFor) > 0 {
			states = append(states, "reserved")
		}
	case c.DeletionTimestamp == nil:
		states = append(states, "pending")
	}
	return strings.Join(states, ",")
}

func sliceColumns() registry.Columns[*resourcev1.ResourceSlice] {
	spec := resourcev1.ResourceSliceSpec{}.SwaggerDoc()
	return registry.Columns[*resourcev1.ResourceSlice]{
		Definitions: []metav1.TableColumnDefinition{
			registry.NameColumn(),
			registry.TextColumn("Node", spec["nodeName"]),
			registry.TextColumn("Driver", spec["driver"]),
			registry.TextColumn("Pool", resourcev1.ResourcePool{}.SwaggerDoc()["name"]),
			registry.AgeColumn(),
		},
		Cells: func(s *resourcev1.ResourceSlice, now time.Time) []any {
			node := ""
			if s.Spec.NodeName != nil {
				node = *s.Spec.NodeName
			}
			return []any{s.Name, node, s.Spec.Driver, s.Spec.Pool.Name, registry.Age(s.CreationTimestamp, now)}
		},
	}
}

func taintRuleColumns() registry.Columns[*resourcev1.DeviceTaintRule] {
	taint := resourcev1.DeviceTaint{}.SwaggerDoc()
	return registry.Columns[*resourcev1.DeviceTaintRule]{
		Definitions: []metav1.TableColumnDefinition{
			registry.NameColumn(),
			registry.TextColumn("Key", taint["key"]),
			registry.TextColumn("Value", taint["value"]),
			registry.TextColumn("Effect", taint["effect"]),
			registry.TextColumn("TimeAdded", taint["timeAdded"]),
			registry.AgeColumn(),
		},
		Cells: func(r *resourcev1.DeviceTaintRule, now time.Time) []any {
			added, t := "", &r.Spec.Taint
			if t.TimeAdded != nil {
				added = registry.Age(*t.TimeAdded, now)
			}
			return []any{r.Name, t.Key, t.Value, string(t.Effect), added, registry.Age(r.CreationTimestamp, now)}
		},
	}
}
