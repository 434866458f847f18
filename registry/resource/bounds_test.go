package resource_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/registry/registrytest"
)

func sub(to func(*resourcev1.DeviceSubRequest)) func(*resourcev1.ResourceClaim) {
	return func(c *resourcev1.ResourceClaim) { to(&c.Spec.Devices.Requests[1].FirstAvailable[0]) }
}

// TestClaimBounds: the last that is accepted and the first that is refused.
func TestClaimBounds(t *testing.T) {
	const at = `spec.devices.requests[1].firstAvailable[0].`
	const expression = `spec.devices.requests[0].exactly.selectors[0].cel.expression: Invalid value: `
	k := find(t, "resourceclaims")
	registrytest.Create(t, k, claim(), []claimChange{
		{Name: "a selector of an alternative", To: sub(func(s *resourcev1.DeviceSubRequest) { s.Selectors = selecting("x") }), Refused: []string{
			at + `selectors[0].cel.expression: Invalid value: "x": compilation failed`}},
		{Name: "a count of an alternative", To: sub(func(s *resourcev1.DeviceSubRequest) { s.Count = 2 }), Refused: []string{
			at + `count: Invalid value: 2: must not be specified when allocationMode is 'All'`}},
		{Name: "a value that is tolerated", To: request(func(r *resourcev1.ExactDeviceRequest) {
			r.Tolerations = []resourcev1.DeviceToleration{{Key: "a", Operator: resourcev1.DeviceTolerationOpEqual, Value: "a b"}}
		}), Refused: []string{`spec.devices.requests[0].exactly.tolerations[0].value: Invalid value: "a b": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`}},
		{Name: "the longest selector", To: request(func(r *resourcev1.ExactDeviceRequest) { r.Selectors = selecting(repeat(10 << 10)) }), Refused: []string{
			expression + `"` + repeat(10<<10) + `": compilation failed`}},
		{Name: "an odd compiler", To: request(func(r *resourcev1.ExactDeviceRequest) { r.Selectors = selecting("odd") }), Refused: []string{
			expression + `"odd": x: Invalid value: "y": odd`}},
		{Name: "an alternative that is none", To: devices(func(d *resourcev1.DeviceClaim) { d.Config[0].Requests = []string{"any/A"} }), Refused: []string{
			`spec.devices.config[0].requests[0]: Invalid value: "A": ` + label, `spec.devices.config[0].requests[0]: Invalid value: "any/A": ` + noRequest}},
		{Name: "long parameters", To: devices(func(d *resourcev1.DeviceClaim) {
			d.Config[0].Opaque.Parameters.Raw = []byte(`{"a":"` + repeat(10<<10) + `"}`)
		}), Refused: []string{
			`spec.devices.config[0].opaque.parameters: Too long: may not be more than 10240 bytes`}},
		{Name: "an attribute without domain", To: devices(func(d *resourcev1.DeviceClaim) {
			d.Constraints[0].MatchAttribute = new(resourcev1.FullyQualifiedName("/model"))
		}), Refused: []string{`spec.devices.constraints[0].matchAttribute: Invalid value: "": prefix must not be empty`}},
	})
	c := claim()
	c.Spec.Devices.Requests[0].Exactly.Count = 0
	if errs := k.Rules.Validate(c); len(errs) != 1 || errs[0].Error() != `spec.devices.requests[0].exactly.count: Invalid value: 0: must be greater than zero` {
		t.Errorf("no count: %v", errs)
	}
}

// TestStatusBounds: as TestClaimBounds, of the status.
func TestStatusBounds(t *testing.T) {
	k := find(t, "resourceclaims")
	allocating := func(to func(*resourcev1.ResourceClaimStatus)) func(*resourcev1.ResourceClaim) {
		return func(c *resourcev1.ResourceClaim) {
			c.Status = allocated().Status
			to(&c.Status)
		}
	}
	const results, config, d = `status.allocation.devices.results[0].`, `status.allocation.devices.config[0].`, `status.devices[0].`
	// again reports on a further device, which differs from one that is reported.
	again := func(to func(*resourcev1.DeviceRequestAllocationResult)) func(*resourcev1.ResourceClaim) {
		return allocating(func(s *resourcev1.ResourceClaimStatus) {
			r := &s.Allocation.Devices.Results[1]
			s.Devices = append(s.Devices, resourcev1.AllocatedDeviceStatus{Driver: r.Driver, Pool: r.Pool, Device: r.Device})
			r = &s.Allocation.Devices.Results[0]
			r.ShareID, r.Device = nil, "gpu-1"
			to(r)
			s.Devices[0] = resourcev1.AllocatedDeviceStatus{Driver: r.Driver, Pool: r.Pool, Device: r.Device}
			if r.ShareID != nil {
				s.Devices[0].ShareID = new(string(*r.ShareID))
			}
		})
	}
	conditions := func(n int) []metav1.Condition {
		var out []metav1.Condition
		for i := range n {
			out = append(out, metav1.Condition{Type: fmt.Sprintf("A%d", i), Status: "True", Reason: "B", LastTransitionTime: metav1.Unix(1, 0)})
		}
		return out
	}
	registrytest.Update(t, k, "status", claim(), []claimChange{
		{Name: "conditions of a device", To: allocating(func(s *resourcev1.ResourceClaimStatus) {
			s.Allocation.Devices.Results[0].BindingConditions, s.Allocation.Devices.Results[0].BindingFailureConditions = []string{"c"}, []string{"a b"}
		}), Refused: []string{results + `bindingFailureConditions[0]: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`}},
		{Name: "tolerations", To: allocating(func(s *resourcev1.ResourceClaimStatus) {
			s.Allocation.Devices.Results[0].Tolerations = []resourcev1.DeviceToleration{{Operator: "Exists", Value: "x"}, {Operator: "x"}}
			s.Allocation.Devices.Config[0].Opaque = nil
		}), Refused: []string{
			results + "tolerations[0].value: Invalid value: \"x\": must be empty for operator `Exists`", config + `opaque: Required value`,
			results + `tolerations[1].operator: Unsupported value: "x": supported values: "Equal", "Exists"`}},
		{Name: "a reference twice", To: allocating(func(s *resourcev1.ResourceClaimStatus) {
			s.Allocation.Devices.Config[0].Requests, s.Allocation.Devices.Config[0].Opaque = []string{"gpu", "gpu"}, nil
		}), Refused: []string{config + `opaque: Required value`, config + `requests[1]: Duplicate value: "gpu"`}},
		{Name: "long parameters", To: allocating(func(s *resourcev1.ResourceClaimStatus) {
			s.Allocation.Devices.Config[0].Opaque.Parameters.Raw = []byte(`{"a":"` + repeat(10<<10) + `"}`)
		}), Refused: []string{config + `opaque.parameters: Too long: may not be more than 10240 bytes`}},
		{Name: "reserved twice", To: allocating(func(s *resourcev1.ResourceClaimStatus) { s.ReservedFor = append(s.ReservedFor, s.ReservedFor[0]) }), Refused: []string{
			`status.reservedFor[1]: Duplicate value: {"resource":"pods","name":"web-0","uid":"1"}`}},
		{Name: "another driver", To: again(func(r *resourcev1.DeviceRequestAllocationResult) { r.Driver = "other.example.com" })},
		{Name: "another pool", To: again(func(r *resourcev1.DeviceRequestAllocationResult) { r.Pool = "other" })},
		{Name: "another device", To: again(func(r *resourcev1.DeviceRequestAllocationResult) { r.Device = "other" })},
		{Name: "another share", To: again(func(r *resourcev1.DeviceRequestAllocationResult) { r.ShareID = new(types.UID(share)) })},
		{Name: "the same", To: again(func(*resourcev1.DeviceRequestAllocationResult) {}), Refused: []string{
			`status.devices[1]: Duplicate value: {"driver":"gpu.example.com","pool":"pool","device":"gpu-1","conditions":null}`}},
	})
	reported := func(to func(*resourcev1.AllocatedDeviceStatus)) func(*resourcev1.ResourceClaim) {
		return func(c *resourcev1.ResourceClaim) { to(&c.Status.Devices[0]) }
	}
	registrytest.Update(t, k, "status", allocated(), []claimChange{
		{Name: "nowhere", To: reported(func(s *resourcev1.AllocatedDeviceStatus) { s.Pool, s.Device = "A", "B" }), Refused: []string{
			d + `pool: Invalid value: "A": ` + subdomain, d + `device: Invalid value: "B": ` + label,
			`status.devices[0]: Invalid value: {"Driver":"gpu.example.com","Pool":"A","Device":"B","ShareID":"` + share + `"}: must be an allocated device in the claim`}},
		{Name: "all conditions", To: reported(func(s *resourcev1.AllocatedDeviceStatus) { s.Conditions = conditions(8) })},
		{Name: "many conditions", To: reported(func(s *resourcev1.AllocatedDeviceStatus) { s.Conditions = conditions(9) }), Refused: []string{
			d + `conditions: Too many: 9: must have at most 8 items`}},
		{Name: "a condition", To: reported(func(s *resourcev1.AllocatedDeviceStatus) { s.Conditions = conditions(1); s.Conditions[0].Status = "x" }), Refused: []string{
			d + `conditions[0].status: Unsupported value: "x": supported values: "False", "True", "Unknown"`}},
		{Name: "no data", To: reported(func(s *resourcev1.AllocatedDeviceStatus) { s.Data = &runtime.RawExtension{} })},
		{Name: "too many pods and a pool", To: func(c *resourcev1.ResourceClaim) {
			c.Status.ReservedFor = nil
			for i := range 257 {
				c.Status.ReservedFor = append(c.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: "p", UID: types.UID(fmt.Sprint(i))})
			}
			c.Status.Devices[0].Device = "gpu-9"
		}, Refused: []string{
			`status.devices[0]: Invalid value: {"Driver":"gpu.example.com","Pool":"pool","Device":"gpu-9","ShareID":"` + share + `"}: must be an allocated device in the claim`,
			`status.reservedFor: Too many: 257: must have at most 256 items`}},
	})
	registrytest.Update(t, find(t, "devicetaintrules"), "status", taintRule(), []registrytest.Change[*resourcev1.DeviceTaintRule]{
		{Name: "all conditions", To: func(r *resourcev1.DeviceTaintRule) { r.Status.Conditions = conditions(8) }},
	})
}

// TestSliceBounds: as TestClaimBounds, of slices.
func TestSliceBounds(t *testing.T) {
	const d = `spec.devices[0]`
	counters := func(n int) map[string]resourcev1.Counter {
		out := map[string]resourcev1.Counter{}
		for i := range n {
			out[fmt.Sprintf("c%d", i)] = resourcev1.Counter{}
		}
		return out
	}
	many := func(n int, last string) func(*resourcev1.ResourceSlice) {
		return spec(func(s *resourcev1.ResourceSliceSpec) {
			s.Devices = nil
			for i := range n {
				s.Devices = append(s.Devices, device(fmt.Sprintf("gpu-%d", i)))
			}
			s.Devices[n-1].Name = last
		})
	}
	segment := repeat(63)
	longest := strings.Join([]string{segment, segment, segment, repeat(61)}, ".")
	selected := &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"n"}}}}}}
	const place = d + ": Invalid value: null: `nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec"
	registrytest.Create(t, find(t, "resourceslices"), slice(), []sliceChange{
		{Name: "the first generation", To: spec(func(s *resourcev1.ResourceSliceSpec) { s.Pool.Generation = 0 })},
		{Name: "a long driver", To: spec(func(s *resourcev1.ResourceSliceSpec) { s.Driver = repeat(64) }), Refused: []string{
			`spec.driver: Too long: may not be more than 63 bytes`}},
		{Name: "the longest pool", To: spec(func(s *resourcev1.ResourceSliceSpec) { s.Pool.Name = longest })},
		{Name: "a long pool", To: spec(func(s *resourcev1.ResourceSliceSpec) { s.Pool.Name = longest[1:] + "/a" }), Refused: []string{
			`spec.pool.name: Too long: may not be more than 253 bytes`}},
		{Name: "a node", To: spec(func(s *resourcev1.ResourceSliceSpec) { s.NodeName = new("A b") }), Refused: []string{
			`spec.nodeName: Invalid value: "A b": ` + subdomain}},
		{Name: "selected nodes", To: spec(func(s *resourcev1.ResourceSliceSpec) { s.NodeName, s.NodeSelector = nil, selected })},
		{Name: "the node of a device", To: dev(func(d *resourcev1.Device) { d.NodeName = new("n") }), Refused: []string{place}},
		{Name: "nodes of a device", To: dev(func(d *resourcev1.Device) { d.NodeSelector = selected }), Refused: []string{place}},
		{Name: "all devices, one twice", To: many(128, "gpu-0"), Refused: []string{`spec.devices[127]: Duplicate value: "gpu-0"`}},
		{Name: "too many with counters", To: func(s *resourcev1.ResourceSlice) {
			many(65, "last")(s)
			s.Spec.Devices[0].ConsumesCounters = []resourcev1.DeviceCounterConsumption{{CounterSet: "a", Counters: counters(1)}}
		}, Refused: []string{`spec.devices: Too many: 65: must have at most 64 items`}},
		{Name: "a counter set twice", To: dev(func(d *resourcev1.Device) {
			d.ConsumesCounters = slices.Repeat([]resourcev1.DeviceCounterConsumption{{CounterSet: "a", Counters: counters(1)}}, 2)
		}), Refused: []string{d + `.consumesCounters[1]: Duplicate value: {"counterSet":"a","counters":{"c0":{"value":"0"}}}`}},
		{Name: "all counters", To: dev(func(d *resourcev1.Device) {
			d.ConsumesCounters = []resourcev1.DeviceCounterConsumption{{CounterSet: "a", Counters: counters(32)}}
		})},
		{Name: "many counters", To: dev(func(d *resourcev1.Device) {
			d.ConsumesCounters = []resourcev1.DeviceCounterConsumption{{CounterSet: "a", Counters: counters(33)}}
		}), Refused: []string{d + `.consumesCounters[0].counters: Too many: 33: must have at most 32 items`}},
		{Name: "the longest text", To: attribute(resourcev1.DeviceAttribute{StringValue: new(repeat(64))})},
		{Name: "a domain of an attribute", To: dev(func(d *resourcev1.Device) { d.Attributes["a_b/x"] = d.Attributes["model"] }), Refused: []string{
			d + `.attributes: Invalid value: "a_b": ` + subdomain}},
		{Name: "a name of a capacity", To: dev(func(d *resourcev1.Device) { d.Capacity["/x"] = d.Capacity["memory"] }), Refused: []string{
			d + `.capacity: Invalid value: "": the domain must not be empty`}},
		{Name: "a policy of one allocation", To: dev(func(d *resourcev1.Device) {
			d.AllowMultipleAllocations = new(false)
			d.Capacity["memory"] = resourcev1.DeviceCapacity{Value: resource.MustParse("10"), RequestPolicy: &resourcev1.CapacityRequestPolicy{}}
		}), Refused: []string{d + `.capacity[memory].requestPolicy: Forbidden: allowMultipleAllocations must be true`}},
		{Name: "a long key", To: dev(func(d *resourcev1.Device) {
			d.Attributes[resourcev1.QualifiedName("a/b/"+strings.Repeat("x", 50)+"-"+strings.Repeat("y", 50))] = resourcev1.DeviceAttribute{StringValue: new(repeat(65))}
		}), Refused: []string{d + `.attributes[a/b/` + strings.Repeat("x", 43) + `...` + strings.Repeat("y", 46) + `].string: Too long: may not be more than 64 bytes`}},
	})
}

// TestPolicyBounds: as TestClaimBounds, of what requests may take of a shared capacity.
func TestPolicyBounds(t *testing.T) {
	const at = `spec.devices[0].capacity[memory].requestPolicy.validRange.`
	var changes []sliceChange
	for name, tt := range map[string]struct {
		capacity, standard, least, most, step string
		refused                               []string
	}{
		"all of it":           {"10", "10", "10", "10", "", nil},
		"one step to the end": {"10", "4", "4", "10", "6", nil},
		"from nothing":        {"10", "0", "0", "10", "5", nil},
		"the largest":         {"9223372036854775807", "0", "0", "9223372036854775807", "1", nil},
		"thousandths": {"10", "1", "0.5", "2", "0.3", []string{
			at + `step: Invalid value: "1": value is not a multiple of a given step (300m) from (500m)`}},
	} {
		policy := &resourcev1.CapacityRequestPolicy{Default: quantity(tt.standard), ValidRange: &resourcev1.CapacityRequestPolicyRange{Min: quantity(tt.least), Max: quantity(tt.most)}}
		if tt.step != "" {
			policy.ValidRange.Step = quantity(tt.step)
		}
		changes = append(changes, sliceChange{Name: name, To: dev(func(d *resourcev1.Device) {
			d.AllowMultipleAllocations = new(true)
			d.Capacity["memory"] = resourcev1.DeviceCapacity{Value: resource.MustParse(tt.capacity), RequestPolicy: policy.DeepCopy()}
		}), Refused: tt.refused})
	}
	registrytest.Create(t, find(t, "resourceslices"), slice(), changes)
}
