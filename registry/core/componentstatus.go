package core

import (
	"cmp"
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/registry"
)

// Component is a part of the control plane of which ComponentStatuses tell whether it is healthy.
type Component struct {
	// Name is the name of the ComponentStatus; upstream's are controller-manager, scheduler and etcd-0.
	Name string
	// Check returns an error unless the component is healthy. It is called for each request, by any goroutine.
	Check func(ctx context.Context) error
}

func componentStatuses(components []Component) registry.Kind {
	components = slices.SortedFunc(slices.Values(components), func(a, b Component) int { return cmp.Compare(a.Name, b.Name) })
	return registry.Computed[*corev1.ComponentStatus]{
		Names: registry.Names{
			Kind: "ComponentStatus", Plural: "componentstatuses", Singular: "componentstatus", Short: []string{"cs"},
		},
		Warning:      "v1 ComponentStatus is deprecated in v1.19+",
		GroupVersion: corev1.SchemeGroupVersion,
		New:          func() *corev1.ComponentStatus { return &corev1.ComponentStatus{} },
		NewList:      func() runtime.Object { return &corev1.ComponentStatusList{} },
		Read:         checks(components),
		Columns:      componentColumns(),
	}.Kind()
}

func componentColumns() registry.Columns[*corev1.ComponentStatus] {
	return registry.Columns[*corev1.ComponentStatus]{
		Definitions: []metav1.TableColumnDefinition{
			registry.NameColumn(),
			registry.TextColumn("Status", "Status of the component conditions"),
			registry.TextColumn("Message", "Message of the component conditions"),
			registry.TextColumn("Error", "Error of the component conditions"),
		},
		Cells: func(s *corev1.ComponentStatus, _ time.Time) []any {
			for _, c := range s.Conditions {
				if c.Type != corev1.ComponentHealthy {
					continue
				}
				status := "Unhealthy"
				if c.Status == corev1.ConditionTrue {
					status = "Healthy"
				}
				return []any{s.Name, status, c.Message, c.Error}
			}
			return []any{s.Name, "Unknown", "", ""}
		},
	}
}

// checks are components in the order of their names.
type checks []Component

// Get checks one component.
func (all checks) Get(ctx context.Context, _, name string) (registry.Object, error) {
	at := slices.IndexFunc(all, func(c Component) bool { return c.Name == name })
	if at < 0 {
		return nil, registry.Errorf(registry.ErrNotFound, registry.ObjectKey{Resource: corev1.Resource("componentstatus"), Name: name}, "")
	}
	return all[at].status(ctx), nil
}

// List checks all components.
func (all checks) List(ctx context.Context, _ string) ([]registry.Object, error) {
	var out []registry.Object
	for _, c := range all {
		out = append(out, c.status(ctx))
	}
	return out, nil
}

func (c Component) status(ctx context.Context) *corev1.ComponentStatus {
	healthy := corev1.ComponentCondition{Type: corev1.ComponentHealthy, Status: corev1.ConditionTrue, Message: "ok"}
	if err := c.Check(ctx); err != nil {
		healthy.Status, healthy.Message, healthy.Error = corev1.ConditionFalse, "", err.Error()
	}
	return &corev1.ComponentStatus{ObjectMeta: metav1.ObjectMeta{Name: c.Name}, Conditions: []corev1.ComponentCondition{healthy}}
}
