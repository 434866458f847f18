package registrytest_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/codec"
	"github.com/keelson-dev/keelson/storage/memory"
)

var tables = flag.String("tables", "testdata/tables", "directory of the tables that upstream made")

// upstreamTable is a kind's table as upstream printed it; the module conformance/printers records it.
type upstreamTable struct {
	Now         time.Time                      `json:"now"`
	Definitions []metav1.TableColumnDefinition `json:"definitions"`
	Rows        []struct {
		Object     json.RawMessage            `json:"object"`
		Cells      []any                      `json:"cells"`
		Conditions []metav1.TableRowCondition `json:"conditions"`
	} `json:"rows"`
}

// TestTables compares the columns of every kind with those of upstream's API server.
func TestTables(t *testing.T) {
	r, err := registry.New(memory.New(memory.Options{}), builtin(), registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, resource := range r.Resources() {
		if resource.Answer != nil {
			continue
		}
		name := resource.GroupResource().String()
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(filepath.Join(*tables, name+".json"))
			if err != nil {
				t.Fatalf("upstream's tables are not recorded (conformance/printers does): %v", err)
			}
			var want upstreamTable
			if err := json.Unmarshal(data, &want); err != nil {
				t.Fatal(err)
			}
			compareTable(t, resource.Kind, want)
		})
	}
}

func compareTable(t *testing.T, k registry.Kind, want upstreamTable) {
	same := slices.EqualFunc(k.Columns.Definitions, want.Definitions, func(a, b metav1.TableColumnDefinition) bool {
		if strings.EqualFold(a.Description, b.Description) {
			a.Description = b.Description // some minor versions begin with the field's Go name
		}
		return a == b
	})
	if !same {
		t.Errorf("definitions\n%s, upstream's\n%s", show(k.Columns.Definitions), show(want.Definitions))
	}
	if len(want.Rows) == 0 {
		t.Error("upstream printed nothing")
	}
	for _, row := range want.Rows {
		obj := k.New()
		if _, err := codec.Decode(row.Object, obj); err != nil {
			t.Fatal(err)
		}
		before := obj.DeepCopyObject()
		// Upstream's IPAddress has one more cell than columns, which no client shows.
		row.Cells = row.Cells[:min(len(row.Cells), len(want.Definitions))]
		cells := plainly(t, k.Columns.Cells(obj, want.Now))
		var conditions []metav1.TableRowCondition
		if k.Columns.Conditions != nil {
			conditions = k.Columns.Conditions(obj)
		}
		if !reflect.DeepEqual(obj, before) {
			t.Errorf("printing changed an object:\n%s", row.Object)
		}
		if !reflect.DeepEqual(cells, row.Cells) || !reflect.DeepEqual(conditions, row.Conditions) {
			t.Errorf("\n keelson %s %s\nupstream %s %s of\n%s", show(cells), show(conditions), show(row.Cells), show(row.Conditions), row.Object)
		}
		if len(cells) != len(k.Columns.Definitions) {
			t.Errorf("%d cells in %d columns", len(cells), len(k.Columns.Definitions))
		}
	}
}

// plainly returns cells as they are after decoding from JSON.
func plainly(t *testing.T, cells []any) []any {
	data, err := json.Marshal(cells)
	if err != nil {
		t.Fatal(err)
	}
	var plain []any
	if err := json.Unmarshal(data, &plain); err != nil {
		t.Fatal(err)
	}
	return plain
}

func show(v any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err.Error()
	}
	return strings.TrimSpace(b.String())
}
