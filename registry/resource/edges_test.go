package resource_test

import (
	"fmt"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/api/resource/v1beta1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/registry/registrytest"
)

// TestSliceLimits: as many as a slice may have, and one more.
func TestSliceLimits(t *testing.T) {
	const d = `spec.devices[0]`
	devices := func(n int, first func(*resourcev1.Device)) func(*resourcev1.ResourceSlice) {
		return spec(func(s *resourcev1.ResourceSliceSpec) {
			s.Devices = nil
			for i := range n {
				s.Devices = append(s.Devices, device(fmt.Sprintf("gpu-%d", i)))
			}
			first(&s.Devices[0])
		})
	}
	ints, bools := make([]int64, 49), make([]bool, 49)
	var texts, versions []string
	for range 49 {
		texts, versions = append(texts, "a"), append(versions, "1.2.3")
	}
	list := func(n int) map[string]resourcev1.DeviceAttribute {
		return map[string]resourcev1.DeviceAttribute{"ints": {IntValues: ints[:n]}, "bools": {BoolValues: bools[:n]}, "strings": {StringValues: texts[:n]}, "versions": {VersionValues: versions[:n]}}
	}
	long := repeat(63) + "/" + repeat(32)
	changes := []sliceChange{
		{Name: "all devices", To: devices(128, func(*resourcev1.Device) {})},
		{Name: "all with taints", To: devices(64, func(d *resourcev1.Device) { d.Taints = []resourcev1.DeviceTaint{{Key: "a", Effect: "None"}} })},
		{Name: "all attributes", To: dev(func(d *resourcev1.Device) {
			for i := range 30 {
				d.Attributes[resourcev1.QualifiedName(fmt.Sprintf("a%d", i))] = d.Attributes["model"]
			}
		})},
		{Name: "a key that is shown", To: dev(func(d *resourcev1.Device) {
			d.Attributes[resourcev1.QualifiedName(long)] = resourcev1.DeviceAttribute{StringValue: new(repeat(65))}
		}), Refused: []string{d + `.attributes[` + long + `].string: Too long: may not be more than 64 bytes`}},
	}
	registrytest.Create(t, find(t, "resourceslices"), slice(), changes)
	// Lists of values are off by default, and stay where there are some.
	changes = []sliceChange{
		{Name: "texts", To: attribute(resourcev1.DeviceAttribute{StringValues: []string{"a", repeat(65)}}), Refused: []string{
			d + `.attributes[model].strings[1]: Too long: may not be more than 64 bytes`}},
		{Name: "versions", To: attribute(resourcev1.DeviceAttribute{VersionValues: []string{"1.2.3", "1.02.3"}}), Refused: []string{
			d + `.attributes[model].versions[1]: Invalid value: "1.02.3": must be a string compatible with semver.org spec 2.0.0`}},
	}
	for name, a := range list(47) {
		changes = append(changes, sliceChange{Name: "all " + name, To: attribute(a)})
	}
	for name, a := range list(48) {
		changes = append(changes, sliceChange{Name: "too many " + name, To: attribute(a), Refused: []string{
			d + `: Invalid value: 49: the total number of attribute values must not exceed 48`}})
	}
	for name, a := range list(1) {
		changes = append(changes, sliceChange{Name: "devices with " + name, To: devices(65, func(d *resourcev1.Device) { d.Attributes["model"] = a }), Refused: []string{
			`spec.devices: Too many: 65: must have at most 64 items`}})
	}
	for name, a := range list(0) {
		changes = append(changes, sliceChange{Name: "empty " + name, To: attribute(a), Refused: []string{
			d + `.attributes[model].` + name + `: Invalid value: []: must not be empty if specified`,
			d + ".attributes[model]: Invalid value: \"\": must specify one of: `int`, `bool`, `string`, `version`, `ints`, `bools`, `strings`, `versions`"}})
	}
	old := slice()
	old.Spec.Devices[0].Attributes["list"] = resourcev1.DeviceAttribute{IntValues: []int64{1}}
	registrytest.Update(t, find(t, "resourceslices"), "", old, changes)
}

// TestClaimLimits: as many as a claim may have, and what a compiler says of selectors.
func TestClaimLimits(t *testing.T) {
	const at = `spec.devices.requests[0].exactly.selectors[0].cel.expression: `
	selector := func(text string) func(*resourcev1.ResourceClaim) {
		return request(func(r *resourcev1.ExactDeviceRequest) { r.Selectors = selecting(text) })
	}
	registrytest.Create(t, find(t, "resourceclaims"), claim(), []claimChange{
		{Name: "all requests", To: devices(func(d *resourcev1.DeviceClaim) {
			*d = resourcev1.DeviceClaim{}
			for i := range 32 {
				d.Requests = append(d.Requests, exactly(fmt.Sprintf("r%d", i)))
			}
		})},
		{Name: "a request twice", To: devices(func(d *resourcev1.DeviceClaim) {
			*d = resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{exactly("a"), exactly("a")}}
		}), Refused: []string{`spec.devices.requests[1]: Duplicate value: {"name":"a","exactly":{"deviceClassName":"gpu.example.com","allocationMode":"ExactCount","count":1}}`}},
		{Name: "the dearest selector", To: selector("limit")},
		{Name: "a dear selector", To: selector("dear"), Refused: []string{at + `Forbidden: too complex, exceeds cost limit`}},
		{Name: "a broken compiler", To: selector("broken"), Refused: []string{at + `Internal error: no environment`}},
		{Name: "a long selector", To: selector(repeat(10*1024 + 1)), Refused: []string{at + `Too long: may not be more than 10240 bytes`}},
		{Name: "no selector", To: request(func(r *resourcev1.ExactDeviceRequest) { r.Selectors = make([]resourcev1.DeviceSelector, 1) }), Refused: []string{
			`spec.devices.requests[0].exactly.selectors[0].cel: Required value`}},
	})
}

// TestAllocations: what an allocation may say.
func TestAllocations(t *testing.T) {
	const at = `status.allocation.devices.`
	allocating := func(to func(*resourcev1.DeviceAllocationResult)) func(*resourcev1.ResourceClaim) {
		return func(c *resourcev1.ResourceClaim) {
			c.Status = allocated().Status
			to(&c.Status.Allocation.Devices)
		}
	}
	const other = "223e4567-e89b-12d3-a456-426614174000"
	registrytest.Update(t, find(t, "resourceclaims"), "status", claim(), []claimChange{
		{Name: "a request of a configuration", To: allocating(func(a *resourcev1.DeviceAllocationResult) { a.Config[0].Requests = []string{"x"} }), Refused: []string{
			at + `config[0].requests[0]: Invalid value: "x": ` + noRequest}},
		{Name: "no configuration", To: allocating(func(a *resourcev1.DeviceAllocationResult) { a.Config[0].Opaque = nil }), Refused: []string{
			at + `config[0].opaque: Required value`}},
		{Name: "a pool", To: allocating(func(a *resourcev1.DeviceAllocationResult) { a.Results[1].Pool = "A" }), Refused: []string{
			at + `results[1].pool: Invalid value: "A": segment 0: ` + subdomain}},
		{Name: "a device shared twice", To: func(c *resourcev1.ResourceClaim) {
			c.Status = allocated().Status
			a := &c.Status.Allocation.Devices
			again := a.Results[0]
			again.ShareID = new(types.UID(other))
			a.Results = append(a.Results, again)
			reported := c.Status.Devices[0]
			reported.ShareID = new(other)
			c.Status.Devices = append(c.Status.Devices, reported)
		}},
		{Name: "a device reported twice", To: func(c *resourcev1.ResourceClaim) {
			c.Status = allocated().Status
			c.Status.Devices = append(c.Status.Devices, c.Status.Devices[0])
		}, Refused: []string{
			`status.devices[1]: Duplicate value: {"driver":"gpu.example.com","pool":"pool","device":"gpu-0","shareID":"` + share + `","conditions":null}`}},
	})
}

// TestOlderRequests: a request of v1beta1 in which any of the fields is set is one for exactly that.
func TestOlderRequests(t *testing.T) {
	for name, r := range map[string]v1beta1.DeviceRequest{
		"class":      {DeviceClassName: "x"},
		"selectors":  {Selectors: make([]v1beta1.DeviceSelector, 1)},
		"mode":       {AllocationMode: v1beta1.DeviceAllocationModeAll},
		"count":      {Count: 1},
		"access":     {AdminAccess: new(false)},
		"tolerated":  {Tolerations: make([]v1beta1.DeviceToleration, 1)},
		"capacity":   {Capacity: &v1beta1.CapacityRequirements{}},
		"attributes": {DerivedAttributes: make([]v1beta1.DeviceDerivedAttribute, 1)},
		"":           {FirstAvailable: make([]v1beta1.DeviceSubRequest, 1)},
	} {
		for _, o := range find(t, "resourceclaims").Older {
			if o.GroupVersion != v1beta1.SchemeGroupVersion {
				continue
			}
			c := &v1beta1.ResourceClaim{}
			c.Spec.Devices.Requests = []v1beta1.DeviceRequest{r}
			if got := o.ToStored(c).(*resourcev1.ResourceClaim).Spec.Devices.Requests[0]; (got.Exactly != nil) != (name != "") {
				t.Errorf("%s: %+v", name, got)
			}
		}
	}
}

// TestSkippedOperations: what nodes are to skip is off by default, also where devices were allocated before.
func TestSkippedOperations(t *testing.T) {
	skipping := func() *resourcev1.ResourceClaim {
		c := allocated()
		c.Status.Allocation.Devices.Results[1].SkipNodeOperations = []resourcev1.SkipNodeOperation{"*"}
		return c
	}
	view := find(t, "resourceclaims").Sub.Views["status"]
	for _, old := range []*resourcev1.ResourceClaim{claim(), allocated(), skipping()} {
		had := old.Status.Allocation != nil && old.Status.Allocation.Devices.Results[1].SkipNodeOperations != nil
		c := skipping()
		if view.PrepareUpdate(t.Context(), c, old); (c.Status.Allocation.Devices.Results[1].SkipNodeOperations != nil) != had {
			t.Errorf("there were some: %v; kept: %+v", had, c.Status.Allocation.Devices.Results[1])
		}
	}
}
