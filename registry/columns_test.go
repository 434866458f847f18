package registry_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/storage/memory"
)

// boxes returns a kind with the given columns.
func boxes(columns registry.Columns[*corev1.ConfigMap]) registry.Kind {
	return registry.Definition[*corev1.ConfigMap]{
		Names:        registry.Names{Kind: "Box", Plural: "boxes", Singular: "box"},
		GroupVersion: corev1.SchemeGroupVersion,
		New:          func() *corev1.ConfigMap { return &corev1.ConfigMap{} },
		NewList:      func() runtime.Object { return &corev1.ConfigMapList{} },
		Columns:      columns,
	}.Kind()
}

func TestColumns(t *testing.T) {
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	box := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "b", CreationTimestamp: metav1.NewTime(now.Add(-90 * time.Minute))}}
	cells := func(c *corev1.ConfigMap, now time.Time) []any {
		return []any{c.Name, registry.Age(c.CreationTimestamp, now)}
	}
	definitions := []metav1.TableColumnDefinition{registry.NameColumn(), registry.AgeColumn()}
	for name, test := range map[string]struct {
		columns registry.Columns[*corev1.ConfigMap]
		names   []string
		cells   []any
	}{
		"none":  {names: []string{"Name", "Created At"}, cells: []any{"b", "2026-05-04T10:30:00Z"}},
		"given": {registry.Columns[*corev1.ConfigMap]{Definitions: definitions, Cells: cells}, []string{"Name", "Age"}, []any{"b", "90m"}},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := registry.New(memory.New(memory.Options{}), []registry.Kind{boxes(test.columns)}, registry.Options{})
			if err != nil {
				t.Fatal(err)
			}
			columns := r.Resources()[0].Columns
			var names []string
			for _, d := range columns.Definitions {
				names = append(names, d.Name)
			}
			if got := columns.Cells(box, now); !reflect.DeepEqual(got, test.cells) || !reflect.DeepEqual(names, test.names) {
				t.Errorf("columns %q with cells %q, want %q with %q", names, got, test.names, test.cells)
			}
		})
	}
	for name, half := range map[string]registry.Columns[*corev1.ConfigMap]{
		"definitions only": {Definitions: definitions},
		"cells only":       {Cells: cells},
	} {
		_, err := registry.New(memory.New(memory.Options{}), []registry.Kind{boxes(half)}, registry.Options{})
		if err == nil || !strings.Contains(err.Error(), "columns need both Definitions and Cells") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestAge(t *testing.T) {
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	for ago, want := range map[time.Duration]string{
		0: "0s", 90 * time.Second: "90s", 5 * time.Minute: "5m", 3*time.Hour + 5*time.Minute: "3h5m",
		50 * time.Hour: "2d2h", 400 * 24 * time.Hour: "400d", -time.Second: "0s", -time.Hour: "<invalid>",
	} {
		if got := registry.Age(metav1.NewTime(now.Add(-ago)), now); got != want {
			t.Errorf("%v ago: %q, want %q", ago, got, want)
		}
	}
	if got := registry.Age(metav1.Time{}, now); got != "<unknown>" {
		t.Errorf("never: %q", got)
	}
}
