package selectors_test

import (
	"fmt"
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/keelson-dev/keelson/registry/resource"
	"github.com/keelson-dev/keelson/registry/resource/selectors"
)

func TestCompile(t *testing.T) {
	for expression, want := range map[string]string{
		`device.driver == "gpu.example.com"`:                          "",
		`device.attributes["gpu.example.com"].model == "a"`:           "",
		`device.allowMultipleAllocations == true`:                     "",
		`device.capacity["x"].memory.compareTo(quantity("1Gi")) >= 0`: "",
		`device.driver`:  "must evaluate to bool or the unknown type, not string",
		`device.nothing`: "undefined field 'nothing'",
		``:               "compilation failed",
		`device.attributes["a"].list.includes("b")`: "undeclared reference to 'includes'",
	} {
		cost, err := selectors.Compile(expression)
		switch {
		case want == "" && (err != nil || cost == 0 || cost > resourcev1.CELSelectorExpressionMaxCost):
			t.Errorf("%s: cost %d, %v", expression, cost, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v", expression, err)
		}
	}
	dear := `device.attributes["a"].all(x, device.attributes["a"].all(y, device.attributes["a"].all(z, device.attributes["a"].all(w, x == y && z == w))))`
	if cost, err := selectors.Compile(dear); err != nil || cost <= resourcev1.CELSelectorExpressionMaxCost {
		t.Errorf("costs %d, %v", cost, err)
	}
}

// The kinds check selectors with the compiler.
func ExampleCompile() {
	kinds := resource.Kinds(resource.Options{Compile: selectors.Compile})
	fmt.Println(kinds[0].Rules.Validate(&resourcev1.DeviceClass{Spec: resourcev1.DeviceClassSpec{
		Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: "device.driver"}}},
	}})[0])
	// Output: spec.selectors[0].cel.expression: Invalid value: "device.driver": must evaluate to bool or the unknown type, not string
}
