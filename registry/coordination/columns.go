package coordination

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/registry"
)

func leaseColumns() registry.Columns[*coordinationv1.Lease] {
	return registry.Columns[*coordinationv1.Lease]{
		Definitions: []metav1.TableColumnDefinition{
			registry.NameColumn(),
			registry.TextColumn("Holder", coordinationv1.LeaseSpec{}.SwaggerDoc()["holderIdentity"]),
			registry.AgeColumn(),
		},
		Cells: func(l *coordinationv1.Lease, now time.Time) []any {
			holder := ""
			if l.Spec.HolderIdentity != nil {
				holder = *l.Spec.HolderIdentity
			}
			return []any{l.Name, holder, registry.Age(l.CreationTimestamp, now)}
		},
	}
}
