package admissionregistration

import (
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
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

// policyColumns are the columns of policies: the number of their rules and the kind of their parameters.
func policyColumns[T registry.Object](rules, description string, of func(T) (int, *admissionv1.ParamKind)) registry.Columns[T] {
	return registry.Columns[T]{
		Definitions: []metav1.TableColumnDefinition{
			registry.NameColumn(),
			{Name: rules, Type: "integer", Description: description},
			registry.TextColumn("ParamKind", "ParamKind specifies the kind of resources used to parameterize this policy"),
			registry.AgeColumn(),
		},
		Cells: func(p T, now time.Time) []any {
			n, kind := of(p)
			shown := unsetCell
			if kind != nil {
				shown = kind.APIVersion + "/" + kind.Kind
			}
			return []any{p.GetName(), int64(n), shown, registry.Age(p.GetCreationTimestamp(), now)}
		},
	}
}

// bindingColumns are the columns of bindings: the policy and its parameters.
func bindingColumns[T registry.Object](of func(T) (string, *admissionv1.ParamRef)) registry.Columns[T] {
	return registry.Columns[T]{
		Definitions: []metav1.TableColumnDefinition{
			registry.NameColumn(),
			registry.TextColumn("PolicyName", "PolicyName indicates the policy definition which the policy binding binded to"),
			registry.TextColumn("ParamRef", "ParamRef indicates the param resource which sets the configuration param"),
			registry.AgeColumn(),
		},
		Cells: func(b T, now time.Time) []any {
			policy, params := of(b)
			return []any{b.GetName(), policy, paramsCell(params), registry.Age(b.GetCreationTimestamp(), now)}
		},
	}
}

const unsetCell = "<unset>"

// paramsCell shows a namespace for every named parameter: whether it has one depends on its kind.
func paramsCell(r *admissionv1.ParamRef) string {
	switch {
	case r == nil || r.Name == "" && r.Selector == nil:
		return unsetCell
	case r.Name == "":
		return r.Selector.String()
	case r.Namespace == "":
		return "*/" + r.Name
	}
	return r.Namespace + "/" + r.Name
}
