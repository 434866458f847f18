package resource_test

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/registrytest"
)

type sliceChange = registrytest.Change[*resourcev1.ResourceSlice]

// spec changes a slice, dev its first device.
func spec(to func(*resourcev1.ResourceSliceSpec)) func(*resourcev1.ResourceSlice) {
	return func(s *resourcev1.ResourceSlice) { to(&s.Spec) }
}

func dev(to func(*resourcev1.Device)) func(*resourcev1.ResourceSlice) {
	return func(s *resourcev1.ResourceSlice) { to(&s.Spec.Devices[0]) }
}

func attribute(a resourcev1.DeviceAttribute) func(*resourcev1.ResourceSlice) {
	return dev(func(d *resourcev1.Device) { d.Attributes["model"] = a })
}

func sliceChanges() []sliceChange {
	const d = `spec.devices[0]`
	const only = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
	const perDevice = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec"
	terms := func(n int) *corev1.NodeSelector {
		return &corev1.NodeSelector{NodeSelectorTerms: make([]corev1.NodeSelectorTerm, n)}
	}
	return []sliceChange{
		{Name: "a pool", To: spec(func(s *resourcev1.ResourceSliceSpec) { s.Pool.ResourceSliceCount, s.Pool.Generation = 0, -1 }), Refused: []string{
			`spec.pool.resourceSliceCount: Invalid value: 0: must be greater than zero`, `spec.pool.generation: Invalid value: -1: must be greater than or equal to zero`}},
		{Name: "several nodes", To: spec(func(s *resourcev1.ResourceSliceSpec) { s.AllNodes, s.NodeSelector = new(true), terms(2) }), Refused: []string{
			`spec.nodeSelector.nodeSelectorTerms: Invalid value: [{"MatchExpressions":null,"MatchFields":null},{"MatchExpressions":null,"MatchFields":null}]: must have exactly one node selector term`,
			"spec: Invalid value: \"{`nodeName`, `nodeSelector`, `allNodes`}\": " + only + ", but multiple fields are set"}},
		{Name: "false", To: spec(func(s *resourcev1.ResourceSliceSpec) { s.AllNodes, s.PerDeviceNodeSelection = new(false), new(false) }), Refused: []string{
			`spec.allNodes: Invalid value: false: must be either unset or set to true`, `spec.perDeviceNodeSelection: Invalid value: false: must be either unset or set to true`}},
		{Name: "counters and devices", To: spec(func(s *resourcev1.ResourceSliceSpec) {
			s.SharedCounters = []resourcev1.CounterSet{{Name: "A"}, {Name: "b", Counters: map[string]resourcev1.Counter{"B": {}}}, {Name: "b", Counters: map[string]resourcev1.Counter{"b": {}}}}
		}), Refused: []string{
			"spec: Invalid value: \"\": only one of `sharedCounters` or `devices` is allowed",
			`spec.sharedCounters[2]: Duplicate value: {"name":"b","counters":{"b":{"value":"0"}}}`,
			`spec.sharedCounters[0].name: Invalid value: "A": ` + label, `spec.sharedCounters[0].counters: Required value`,
			`spec.sharedCounters[1].counters: Invalid value: "B": ` + label}},
		{Name: "too many devices", To: spec(func(s *resourcev1.ResourceSliceSpec) { s.Devices = make([]resourcev1.Device, 129) }), Refused: []string{
			`spec.devices: Too many: 129: must have at most 128 items`}},
		{Name: "too many with taints", To: spec(func(s *resourcev1.ResourceSliceSpec) {
			s.Devices = make([]resourcev1.Device, 65)
			s.Devices[0].Taints = []resourcev1.DeviceTaint{{Key: "a", Effect: "None"}}
		}), Refused: []string{`spec.devices: Too many: 65: must have at most 64 items`}},
		{Name: "a device twice", To: dev(func(d *resourcev1.Device) { d.Name = "gpu-1" }), Refused: []string{`spec.devices[1]: Duplicate value: "gpu-1"`}},
		{Name: "nodes of a device", To: dev(func(d *resourcev1.Device) { d.AllNodes = new(true) }), Refused: []string{
			d + ": Invalid value: null: `nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec"}},
		{Name: "no value", To: attribute(resourcev1.DeviceAttribute{}), Refused: []string{
			d + ".attributes[model]: Invalid value: \"\": must specify one of: `int`, `bool`, `string`, `version`, `ints`, `bools`, `strings`, `versions`"}},
		{Name: "two values", To: attribute(resourcev1.DeviceAttribute{IntValue: new(int64(1)), BoolValue: new(true)}), Refused: []string{
			d + ".attributes[model]: Invalid value: \"{int, bool}\": must specify exactly one of: `int`, `bool`, `string`, `version`, `ints`, `bools`, `strings`, `versions`"}},
		{Name: "a long value", To: attribute(resourcev1.DeviceAttribute{StringValue: new(repeat(65))}), Refused: []string{
			d + `.attributes[model].string: Too long: may not be more than 64 bytes`}},
		{Name: "a version", To: attribute(resourcev1.DeviceAttribute{VersionValue: new("1.2.3-rc.1+build.5")})},
		{Name: "no version", To: attribute(resourcev1.DeviceAttribute{VersionValue: new("1.02.3")}), Refused: []string{
			d + `.attributes[model].version: Invalid value: "1.02.3": must be a string compatible with semver.org spec 2.0.0`}},
		{Name: "a name of an attribute", To: dev(func(d *resourcev1.Device) { d.Attributes["/x"] = d.Attributes["model"] }), Refused: []string{
			d + `.attributes: Invalid value: "": the domain must not be empty`}},
		{Name: "a domain alone", To: dev(func(d *resourcev1.Device) { d.Attributes["x/"] = d.Attributes["model"] }), Refused: []string{
			d + `.attributes: Invalid value: "": the name must not be empty`}},
		{Name: "two slashes", To: dev(func(d *resourcev1.Device) { d.Attributes["a/b/c"] = d.Attributes["model"] })},
		{Name: "a long name", To: dev(func(d *resourcev1.Device) { d.Attributes[resourcev1.QualifiedName(repeat(33))] = d.Attributes["model"] }), Refused: []string{
			d + `.attributes: Too long: may not be more than 32 bytes`}},
		{Name: "many attributes", To: dev(func(d *resourcev1.Device) {
			for i := range 31 {
				d.Attributes[resourcev1.QualifiedName(fmt.Sprintf("a%d", i))] = d.Attributes["model"]
			}
		}), Refused: []string{d + `: Invalid value: 33: the total number of attributes and capacities must not exceed 32`}},
		{Name: "a policy", To: dev(func(d *resourcev1.Device) {
			d.Capacity["memory"] = resourcev1.DeviceCapacity{Value: resource.MustParse("10"), RequestPolicy: &resourcev1.CapacityRequestPolicy{}}
		}), Refused: []string{d + `.capacity[memory].requestPolicy: Forbidden: allowMultipleAllocations must be true`}},
		{Name: "a taint", To: dev(func(d *resourcev1.Device) { d.Taints = []resourcev1.DeviceTaint{{Key: "a", Effect: "x"}} }), Refused: []string{
			d + `.taints[0].effect: Unsupported value: "x": supported values: "NoExecute", "NoSchedule", "None"`}},
		{Name: "many taints", To: dev(func(d *resourcev1.Device) {
			d.Taints = slices.Repeat([]resourcev1.DeviceTaint{{Key: "a", Effect: "None"}}, 17)
		}), Refused: []string{d + `.taints: Too many: 17: must have at most 16 items`}},
		{Name: "counters", To: dev(func(d *resourcev1.Device) {
			d.ConsumesCounters = []resourcev1.DeviceCounterConsumption{{}, {CounterSet: "a", Counters: map[string]resourcev1.Counter{"B": {}}}}
		}), Refused: []string{
			d + `.consumesCounters[0].counterSet: Required value`, d + `.consumesCounters[0].counters: Required value`, d + `.consumesCounters[1].counters: Invalid value: "B": ` + label}},
		{Name: "many counters", To: dev(func(d *resourcev1.Device) { d.ConsumesCounters = make([]resourcev1.DeviceCounterConsumption, 3) }), Refused: []string{
			d + `.consumesCounters: Too many: 3: must have at most 2 items`}},
		{Name: "conditions", To: dev(func(d *resourcev1.Device) { d.BindingConditions = []string{"a"} }), Refused: []string{
			d + `.bindingFailureConditions: Invalid value: null: bindingFailureConditions are required to use bindingConditions`}},
		{Name: "nodes of each", To: func(s *resourcev1.ResourceSlice) {
			s.Spec.PerDeviceNodeSelection = new(true)
			s.Spec.Devices[0].NodeName, s.Spec.Devices[0].NodeSelector = new(""), terms(0)
			s.Spec.Devices[1].NodeName, s.Spec.Devices[1].AllNodes = new("n"), new(true)
		}, Refused: []string{
			"spec: Invalid value: \"{`nodeName`, `perDeviceNodeSelection`}\": " + only + ", but multiple fields are set",
			d + `.nodeName: Invalid value: "": must not be empty`,
			d + `.nodeSelector.nodeSelectorTerms: Required value: must have at least one node selector term`,
			"spec.devices[1]: Invalid value: \"{`nodeName`, `allNodes`}\": " + perDevice}},
	}
}

func TestResourceSlice(t *testing.T) {
	k := find(t, "resourceslices")
	registrytest.Create(t, k, slice(), append(sliceChanges(),
		sliceChange{Name: "no driver", To: spec(func(s *resourcev1.ResourceSliceSpec) { s.Driver, s.Pool.Name = "", "a//b" }), Refused: []string{
			`spec.driver: Required value`, `spec.pool.name: Invalid value: "": ` + subdomain}},
		sliceChange{Name: "nowhere", To: spec(func(s *resourcev1.ResourceSliceSpec) { s.NodeName = nil }), Refused: []string{
			"spec: Required value: exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"}},
		sliceChange{Name: "counters", To: spec(func(s *resourcev1.ResourceSliceSpec) {
			s.Devices, s.SharedCounters = nil, []resourcev1.CounterSet{{Name: "a", Counters: map[string]resourcev1.Counter{"b": {}}}}
		})},
	))
	registrytest.Update(t, k, "", slice(), append(sliceChanges(),
		sliceChange{Name: "another place", To: spec(func(s *resourcev1.ResourceSliceSpec) { s.Driver, s.Pool.Name, s.NodeName = "x", "p", new("n") }), Refused: []string{
			`spec.pool.name: Invalid value: "p": field is immutable`, `spec.driver: Invalid value: "x": field is immutable`,
			`spec.nodeName: Invalid value: "n": field is immutable`}},
	))
	fields := k.Fields(slice())
	if fields["spec.nodeName"] != "node-0" || fields["spec.driver"] != driver || fields["spec.pool.name"] != "pool/a" {
		t.Errorf("fields %v", fields)
	}
	none := slice()
	if none.Spec.NodeName = nil; k.Fields(none)["spec.nodeName"] != "" {
		t.Error("the node of none")
	}
}

// TestPolicies: what requests may take of a shared capacity of 10.
func TestPolicies(t *testing.T) {
	k := find(t, "resourceslices")
	const at = `spec.devices[0].capacity[memory].requestPolicy.`
	within := func(least, most, step string) *resourcev1.CapacityRequestPolicyRange {
		r := &resourcev1.CapacityRequestPolicyRange{Min: quantity(least)}
		if most != "" {
			r.Max = quantity(most)
		}
		if step != "" {
			r.Step = quantity(step)
		}
		return r
	}
	values := func(list ...string) []resource.Quantity {
		var out []resource.Quantity
		for _, v := range list {
			out = append(out, resource.MustParse(v))
		}
		return out
	}
	type policy = resourcev1.CapacityRequestPolicy
	var changes []sliceChange
	for name, tt := range map[string]struct {
		policy  policy
		refused []string
	}{
		"nothing":     {policy{}, nil},
		"both":        {policy{Default: quantity("1"), ValidValues: values("1"), ValidRange: within("1", "", "")}, []string{`spec.devices[0].capacity[memory].requestPolicy: Forbidden: exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time`}},
		"no default":  {policy{ValidValues: values("1")}, []string{at + `default: Required value: required when validValues is defined`}},
		"no standard": {policy{ValidRange: within("1", "", "")}, []string{at + `default: Required value: required when validRange is defined`}},
		"values":      {policy{Default: quantity("1"), ValidValues: values("0.5", "1", "10")}, nil},
		"disorder": {policy{Default: quantity("3"), ValidValues: values("2", "1", "1", "11")}, []string{
			at + `validValues[1]: Invalid value: "1": values must be sorted in ascending order`, at + `validValues[3]: Invalid value: "11": option is larger than capacity value: 10`,
			at + `validValues[2]: Duplicate value: "1"`, at + `validValues: Invalid value: "3": default value is not valid according to the requestPolicy`}},
		"many": {policy{Default: quantity("1"), ValidValues: slices.Repeat(values("1"), 11)}, []string{
			at + `validValues: Too many: 11: must have at most 10 items`, at + `validValues: Invalid value: "1": default value is not valid according to the requestPolicy`}},
		"no least":  {policy{Default: quantity("1"), ValidRange: &resourcev1.CapacityRequestPolicyRange{}}, []string{at + `validRange.min: Required value: required when validRange is defined`}},
		"a range":   {policy{Default: quantity("3"), ValidRange: within("1", "5", "2")}, nil},
		"fractions": {policy{Default: quantity("1"), ValidRange: within("0.5", "2", "0.5")}, nil},
		"bounds": {policy{Default: quantity("1"), ValidRange: within("12", "11", "")}, []string{
			at + `validRange.min: Invalid value: "12": min is larger than capacity value: 10`, at + `validRange.default: Invalid value: "1": default is less than min: 12`,
			at + `validRange.max: Invalid value: "12": min is larger than max: 11`, at + `validRange.max: Invalid value: "11": max is larger than capacity value: 10`}},
		"a large default": {policy{Default: quantity("7"), ValidRange: within("1", "5", "")}, []string{at + `validRange.default: Invalid value: "7": default is more than max: 5`}},
		"no step":         {policy{Default: quantity("1"), ValidRange: within("1", "5", "0")}, []string{at + `validRange.step: Invalid value: "0": must be greater than zero`}},
		"steps": {policy{Default: quantity("2"), ValidRange: within("1", "6", "3")}, []string{
			at + `validRange.step: Invalid value: "2": value is not a multiple of a given step (3) from (1)`, at + `validRange.step: Invalid value: "6": value is not a multiple of a given step (3) from (1)`}},
		"one step": {policy{Default: quantity("1"), ValidRange: within("1", "", "20")}, []string{at + `validRange.step: Invalid value: "20": one step 21 is larger than capacity value: 10`}},
		"a negative step": {policy{Default: quantity("-1"), ValidRange: within("-2", "", "1")}, []string{
			at + `validRange.default: Invalid value: "-1": must be greater than or equal to 0`, at + `validRange.min: Invalid value: "-2": must be greater than or equal to 0`}},
		"too small": {policy{Default: quantity("1"), ValidRange: within("0.0001", "", "1")}, []string{at + `validRange.min: Invalid value: "100u": value cannot be represented as a milli value`}},
		"too large": {policy{Default: quantity("1"), ValidRange: within("1", "100E", "1")}, []string{
			at + `validRange.max: Invalid value: "100E": max is larger than capacity value: 10`, at + `validRange.max: Invalid value: "100E": must not be larger than 9223372036854775807`}},
	} {
		changes = append(changes, sliceChange{Name: name, To: dev(func(d *resourcev1.Device) {
			d.AllowMultipleAllocations = new(true)
			d.Capacity["memory"] = resourcev1.DeviceCapacity{Value: resource.MustParse("10"), RequestPolicy: tt.policy.DeepCopy()}
		}), Refused: tt.refused})
	}
	registrytest.Create(t, k, slice(), changes)
	old := slice()
	changes[0].To(old)
	for _, c := range changes {
		c.To(old)
		if errs := registrytest.Replace(k, "", old.DeepCopy(), old); len(errs) > 0 {
			t.Errorf("%s, as before: %v", c.Name, errs)
		}
	}
}

// TestUnsupported: fields of features that are off by default are dropped, unless there were some.
func TestUnsupported(t *testing.T) {
	k := find(t, "resourceslices")
	with := func() *resourcev1.ResourceSlice {
		s := slice()
		s.Spec.PartitionTypeAttribute = new(resourcev1.FullyQualifiedName("a/b"))
		s.Spec.SkipNodeOperations = []resourcev1.SkipNodeOperation{"*"}
		d := &s.Spec.Devices[0]
		d.NodeAllocatableResources = map[corev1.ResourceName]resourcev1.NodeAllocatableResource{"cpu": {}}
		d.ConsumesCounters = []resourcev1.DeviceCounterConsumption{{CounterSet: "a", CompatibilityGroups: []string{"b"}}}
		d.Attributes["model"] = resourcev1.DeviceAttribute{StringValues: []string{"a"}, IntValues: []int64{1}, BoolValues: []bool{true}, VersionValues: []string{"1"}}
		return s
	}
	left := func(s *resourcev1.ResourceSlice) int {
		d := &s.Spec.Devices[0]
		a, n := d.Attributes["model"], 0
		for _, is := range []bool{
			s.Spec.PartitionTypeAttribute != nil, s.Spec.SkipNodeOperations != nil, d.NodeAllocatableResources != nil,
			d.ConsumesCounters[0].CompatibilityGroups != nil, a.StringValues != nil, a.IntValues != nil, a.BoolValues != nil, a.VersionValues != nil,
		} {
			if is {
				n++
			}
		}
		return n
	}
	s := with()
	if k.Rules.PrepareCreate(t.Context(), s); left(s) != 0 || s.Generation != 1 {
		t.Errorf("created: %+v", s)
	}
	s = with()
	if k.Rules.PrepareUpdate(t.Context(), s, slice()); left(s) != 0 || s.Generation != 2 {
		t.Errorf("updated: %+v", s)
	}
	s = with()
	if k.Rules.PrepareUpdate(t.Context(), s, with()); left(s) != 8 || s.Generation != 1 {
		t.Errorf("%d are kept: %+v", left(s), s)
	}
}

func TestSliceDefaultsAndWarnings(t *testing.T) {
	k := find(t, "resourceslices")
	s := slice()
	s.Spec.Devices[1].Taints = make([]resourcev1.DeviceTaint, 1)
	if k.Rules.Default(s); s.Spec.Devices[1].Taints[0].TimeAdded == nil {
		t.Error("a taint without a time")
	}
	var told []string
	ctx := registry.WithWarnings(t.Context(), func(text string) { told = append(told, text) })
	for _, name := range []string{driver, "GPU.example.com"} {
		s.Spec.Driver = name
		if err := k.Rules.Guard(ctx, s, nil); err != nil {
			t.Error(err)
		}
	}
	if len(told) != 1 || told[0] != `spec.driver: driver names should be lowercase; "GPU.example.com" contains uppercase characters` {
		t.Errorf("warnings %q", told)
	}
}
