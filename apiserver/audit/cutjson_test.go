package audit_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/keelson-dev/keelson/apiserver/audit"
)

// TestAnnotationStaysJSON: programs can read what is left of a long JSON value, and the event says what it lacks.
func TestAnnotationStaysJSON(t *testing.T) {
	type failure struct {
		Message string   `json:"message"`
		Policy  string   `json:"policy"`
		Actions []string `json:"validationActions"`
	}
	failures := func(n, size int) string {
		var all []failure
		for i := range n {
			all = append(all, failure{strings.Repeat("ü<", size/3), fmt.Sprint("policy-", i), []string{"Deny", "Audit"}})
		}
		text, err := json.Marshal(all)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	entries := func(value string) (n int, first failure) {
		var all []failure
		if err := json.Unmarshal([]byte(value), &all); err != nil {
			t.Fatalf("%v: %s", err, value)
		}
		if len(all) > 0 {
			first = all[0]
		}
		return len(all), first
	}
	for name, tt := range map[string]struct {
		value   string
		kept    int
		whole   bool // the first message is not cut
		omitted string
	}{
		"short":            {failures(3, 300), 3, true, ""},
		"a long message":   {failures(1, 90000), 1, false, ""},
		"long messages":    {failures(8, 3000), 4, false, "4 entries of key"},
		"many":             {failures(50, 600), 4, false, "46 entries of key"},
		"many and short":   {failures(500, 3), 32, true, "468 entries of key"},
		"many, of nothing": {"[" + strings.Repeat("{},", 5000) + "{}]", 64, true, "4937 entries of key"},
		"all too large":    {`[{"` + strings.Repeat("x", 5000) + `":1},{}]`, 0, true, "2 entries of key"},
	} {
		t.Run(name, func(t *testing.T) {
			annotations := annotate(tt.value)
			n, first := entries(annotations["key"])
			if n != tt.kept || strings.Contains(first.Message, "bytes cut]") == tt.whole || len(annotations["key"]) > 4096 || annotations["audit.keelson.dev/cut"] != tt.omitted {
				t.Errorf("%d entries in %d bytes, first %.60q, %v", n, len(annotations["key"]), first.Message, slices.Sorted(maps.Keys(annotations)))
				t.Errorf("omitted %q", annotations["audit.keelson.dev/cut"])
			}
			if n > 0 && first.Policy != "" && (first.Policy != "policy-0" || len(first.Actions) != 2) {
				t.Errorf("the first entry is %+v", first)
			}
		})
	}
	long := strings.Repeat("x", 5000)
	for value, want := range map[string]string{
		`{"a":"` + long + `","n":12345678901234567890}`: `{"a":"` + long[:1024] + `...[3976 bytes cut]","n":12345678901234567890}`,
		`{"` + long + `":1}`:                            "{}",
		"[" + long:                                      "[" + long[:4095] + "...[905 bytes cut]",
		"[1] [" + long + "]":                            "[1] [" + long[:4091] + "...[910 bytes cut]",
	} {
		if got := annotate(value)["key"]; got != want {
			t.Errorf("%.40s... became %.80s... of %d bytes", value, got, len(got))
		}
	}
}

// annotate returns the annotations of an event to which one was added.
func annotate(value string) map[string]string {
	sink := &audit.Memory{}
	r := audit.New(audit.Everything(auditv1.LevelMetadata), sink, audit.Options{}).Open()
	r.Begin(request("/"))
	r.Annotate("key", value)
	r.Completed()
	return sink.Events()[0].Annotations
}
