package policy

import (
	"time"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/keelson-dev/keelson/registry"
)

func budgetColumns() registry.Columns[*policyv1.PodDisruptionBudget] {
	return registry.Columns[*policyv1.PodDisruptionBudget]{
		Definitions: []metav1.TableColumnDefinition{
			registry.NameColumn(),
			registry.TextColumn("Min Available", "The minimum number of pods that must be available."),
			registry.TextColumn("Max Unavailable", "The maximum number of pods that may be unavailable."),
			{Name: "Allowed Disruptions", Type: "integer", Description: "Calculated number of pods that may be disrupted at this time."},
			registry.AgeColumn(),
		},
		Cells: func(b *policyv1.PodDisruptionBudget, now time.Time) []any {
			return []any{
				b.Name, bound(b.Spec.MinAvailable), bound(b.Spec.MaxUnavailable), int64(b.Status.DisruptionsAllowed),
				registry.Age(b.CreationTimestamp, now),
			}
		},
	}
}

func bound(n *intstr.IntOrString) string {
	if n == nil {
		return "N/A"
	}
	return n.String()
}
