package flowcontrol

import (
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/registry"
)

func schemaColumns() registry.Columns[flowSchema] {
	spec := flowcontrolv1.FlowSchemaSpec{}.SwaggerDoc()
	return registry.Columns[flowSchema]{
		Definitions: []metav1.TableColumnDefinition{
			registry.NameColumn(),
			registry.TextColumn("PriorityLevel", flowcontrolv1.PriorityLevelConfigurationReference{}.SwaggerDoc()["name"]),
			registry.TextColumn("MatchingPrecedence", spec["matchingPrecedence"]),
			registry.TextColumn("DistinguisherMethod", spec["distinguisherMethod"]),
			registry.AgeColumn(),
			registry.TextColumn("MissingPL", "references a broken or non-existent PriorityLevelConfiguration"),
		},
		Cells: func(s flowSchema, now time.Time) []any {
			method, missing := "<none>", "?"
			if m := s.Spec.DistinguisherMethod; m != nil {
				method = string(m.Type)
			}
			for _, c := range s.Status.Conditions {
				if c.Type == flowcontrolv1.FlowSchemaConditionDangling {
					missing = string(c.Status)
					break
				}
			}
			return []any{
				s.Name, s.Spec.PriorityLevelConfiguration.Name, int64(s.Spec.MatchingPrecedence), method,
				registry.Age(s.CreationTimestamp, now), missing,
			}
		},
	}
}

func levelColumns() registry.Columns[priorityLevel] {
	queuing := flowcontrolv1.QueuingConfiguration{}.SwaggerDoc()
	return registry.Columns[priorityLevel]{
		Definitions: []metav1.TableColumnDefinition{
			registry.NameColumn(),
			registry.TextColumn("Type", flowcontrolv1.PriorityLevelConfigurationSpec{}.SwaggerDoc()["type"]),
			registry.TextColumn("NominalConcurrencyShares", flowcontrolv1.LimitedPriorityLevelConfiguration{}.SwaggerDoc()["nominalConcurrencyShares"]),
			registry.TextColumn("Queues", queuing["queues"]),
			registry.TextColumn("HandSize", queuing["handSize"]),
			registry.TextColumn("QueueLengthLimit", queuing["queueLengthLimit"]),
			registry.AgeColumn(),
		},
		Cells: func(l priorityLevel, now time.Time) []any {
			var shares, queues, hand, length any = "<none>", "<none>", "<none>", "<none>"
			if limited := l.Spec.Limited; limited != nil {
				shares = int64(0)
				if limited.NominalConcurrencyShares != nil {
					shares = int64(*limited.NominalConcurrencyShares)
				}
				if q := limited.LimitResponse.Queuing; q != nil {
					queues, hand, length = int64(q.Queues), int64(q.HandSize), int64(q.QueueLengthLimit)
				}
			}
			return []any{l.Name, string(l.Spec.Type), shares, queues, hand, length, registry.Age(l.CreationTimestamp, now)}
		},
	}
}
