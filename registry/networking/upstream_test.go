package networking_test

import (
	"bufio"
	"encoding/json"
	"flag"
	"os"
	"regexp"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/networking"
	"github.com/keelson-dev/keelson/registry/registrytest"
)

var upstreamCases = flag.String("upstream", "testdata/upstream.json", "file of the cases that upstream's code judged")

// immutableValue matches the value in the message, which some minor versions omit.
var immutableValue = regexp.MustCompile(`Invalid value: .*: field is immutable`)

// TestAsUpstream compares stored objects and validation errors with those of upstream's strategies, which the
// module conformance/networking records.
func TestAsUpstream(t *testing.T) {
	file, err := os.Open(*upstreamCases)
	if err != nil {
		t.Fatalf("upstream's verdicts are not recorded (conformance/networking does): %v", err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<24)
	n := 0
	for ; lines.Scan() && !t.Failed(); n++ {
		var c struct {
			Resource, View      string
			Old, Object, Result json.RawMessage
			Errors              []string
		}
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		k := registrytest.Find(t, networking.Kinds(), c.Resource)
		read := func(data json.RawMessage) registry.Object {
			obj := k.New()
			if err := json.Unmarshal(data, obj); err != nil {
				t.Fatal(err)
			}
			return obj
		}
		obj := read(c.Object)
		var errs field.ErrorList
		if c.Old == nil {
			registrytest.Prepare(k, obj)
			errs = k.Rules.Validate(obj)
		} else {
			errs = registrytest.Replace(k, c.View, obj, read(c.Old))
		}
		got := []string{}
		for _, err := range errs {
			if text := plain(err.Error()); !slices.Contains(got, text) {
				got = append(got, text)
			}
		}
		for i := range c.Errors {
			c.Errors[i] = plain(c.Errors[i])
		}
		slices.Sort(got)
		slices.Sort(c.Errors)
		if !slices.Equal(got, c.Errors) {
			t.Errorf("refused with\n\t%q\nupstream\n\t%q\n%s", got, c.Errors, lines.Text())
		}
		if want := read(c.Result); !equality.Semantic.DeepEqual(obj, want) {
			t.Errorf("stored\n\t%+v\nupstream\n\t%+v\n%s", obj, want, lines.Text())
		}
	}
	if err := lines.Err(); err != nil || n == 0 {
		t.Errorf("%d cases: %v", n, err)
	}
}

func plain(text string) string {
	return immutableValue.ReplaceAllString(text, "Invalid value: field is immutable")
}
