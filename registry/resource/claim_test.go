package resource_test

import (
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/registry/registrytest"
)

type claimChange = registrytest.Change[*resourcev1.ResourceClaim]

// request changes the first request.
func request(to func(*resourcev1.ExactDeviceRequest)) func(*resourcev1.ResourceClaim) {
	return func(c *resourcev1.ResourceClaim) { to(c.Spec.Devices.Requests[0].Exactly) }
}

func devices(to func(*resourcev1.DeviceClaim)) func(*resourcev1.ResourceClaim) {
	return func(c *resourcev1.ResourceClaim) { to(&c.Spec.Devices) }
}

func claimChanges() []claimChange {
	const at = `spec.devices.requests[0].exactly.`
	return []claimChange{
		{Name: "nothing", To: devices(func(d *resourcev1.DeviceClaim) { *d = resourcev1.DeviceClaim{} })},
		{Name: "a bad name", To: devices(func(d *resourcev1.DeviceClaim) {
			*d = resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{exactly("A")}}
		}), Refused: []string{`spec.devices.requests[0].name: Invalid value: "A": ` + label}},
		{Name: "neither", To: devices(func(d *resourcev1.DeviceClaim) { d.Requests[0].Exactly = nil }), Refused: []string{
			"spec.devices.requests[0]: Required value: exactly one of `exactly` or `firstAvailable` is required"}},
		{Name: "both", To: devices(func(d *resourcev1.DeviceClaim) { d.Requests[1].Exactly = d.Requests[0].Exactly }), Refused: []string{
			"spec.devices.requests[1]: Invalid value: null: exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set"}},
		{Name: "no class", To: request(func(r *resourcev1.ExactDeviceRequest) { r.DeviceClassName = "" }), Refused: []string{at + `deviceClassName: Required value`}},
		{Name: "a class", To: request(func(r *resourcev1.ExactDeviceRequest) { r.DeviceClassName = "A" }), Refused: []string{
			at + `deviceClassName: Invalid value: "A": ` + subdomain}},
		{Name: "a selector", To: request(func(r *resourcev1.ExactDeviceRequest) { r.Selectors = selecting("x") }), Refused: []string{
			at + `selectors[0].cel.expression: Invalid value: "x": compilation failed`}},
		{Name: "no count", To: request(func(r *resourcev1.ExactDeviceRequest) { r.Count = -1 }), Refused: []string{
			at + `count: Invalid value: -1: must be greater than zero`}},
		{Name: "a count of all", To: request(func(r *resourcev1.ExactDeviceRequest) { r.AllocationMode = "All" }), Refused: []string{
			at + `count: Invalid value: 1: must not be specified when allocationMode is 'All'`}},
		{Name: "a mode", To: request(func(r *resourcev1.ExactDeviceRequest) { r.AllocationMode = "Some" }), Refused: []string{
			at + `allocationMode: Unsupported value: "Some": supported values: "All", "ExactCount"`}},
		{Name: "tolerations", To: request(func(r *resourcev1.ExactDeviceRequest) {
			r.Tolerations = []resourcev1.DeviceToleration{{Operator: "Exists", Value: "x"}, {Operator: "x"}, {Key: "a b", Operator: "Equal", Value: "ok", Effect: "x"}}
		}), Refused: []string{
			at + "tolerations[0].value: Invalid value: \"x\": must be empty for operator `Exists`",
			at + `tolerations[1].operator: Unsupported value: "x": supported values: "Equal", "Exists"`,
			at + `tolerations[2].key: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`,
			at + `tolerations[2].effect: Unsupported value: "x": supported values: "NoExecute", "NoSchedule", "None"`}},
		{Name: "alternatives", To: devices(func(d *resourcev1.DeviceClaim) {
			d.Requests[1].FirstAvailable[0].DeviceClassName, d.Requests[1].FirstAvailable[1].Name = "", "b b"
		}), Refused: []string{
			`spec.devices.requests[1].firstAvailable[1].name: Invalid value: "b b": ` + label,
			`spec.devices.requests[1].firstAvailable[0].deviceClassName: Required value`}},
		{Name: "too many alternatives", To: devices(func(d *resourcev1.DeviceClaim) {
			d.Constraints, d.Requests[1].FirstAvailable = nil, make([]resourcev1.DeviceSubRequest, 9)
		}), Refused: []string{`spec.devices.requests[1].firstAvailable: Too many: 9: must have at most 8 items`}},
		{Name: "too many requests", To: devices(func(d *resourcev1.DeviceClaim) {
			*d = resourcev1.DeviceClaim{Requests: make([]resourcev1.DeviceRequest, 33)}
		}), Refused: []string{
			`spec.devices.requests: Too many: 33: must have at most 32 items`}},
		{Name: "references", To: devices(func(d *resourcev1.DeviceClaim) { d.Config[0].Requests = []string{"gpu/x", "nothing", "any/c", "a/b/c"} }), Refused: []string{
			`spec.devices.config[0].requests[0]: Invalid value: "gpu/x": ` + noRequest, `spec.devices.config[0].requests[1]: Invalid value: "nothing": ` + noRequest,
			`spec.devices.config[0].requests[2]: Invalid value: "any/c": ` + noRequest, `spec.devices.config[0].requests[3]: Invalid value: "a/b/c": ` + noRequest}},
		{Name: "a reference twice", To: devices(func(d *resourcev1.DeviceClaim) { d.Config[0].Requests = []string{"gpu", "gpu"} }), Refused: []string{
			`spec.devices.config[0].requests[1]: Duplicate value: "gpu"`}},
		{Name: "no attribute", To: devices(func(d *resourcev1.DeviceClaim) { d.Constraints[0].MatchAttribute = nil }), Refused: []string{
			`spec.devices.constraints[0]: Required value: exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set`}},
		{Name: "attributes", To: devices(func(d *resourcev1.DeviceClaim) {
			d.Constraints[0].MatchAttribute = new(resourcev1.FullyQualifiedName("model"))
			d.Constraints = append(d.Constraints, resourcev1.DeviceConstraint{DistinctAttribute: new(resourcev1.FullyQualifiedName("/model"))})
		}), Refused: []string{
			`spec.devices.constraints[0].matchAttribute: Invalid value: "model": a fully qualified name must be a domain and a name separated by a slash`,
			`spec.devices.constraints[1].distinctAttribute: Invalid value: "": prefix must not be empty`}},
		{Name: "configuration", To: devices(func(d *resourcev1.DeviceClaim) { d.Config[0].Opaque = nil }), Refused: []string{`spec.devices.config[0].opaque: Required value`}},
	}
}

func TestResourceClaim(t *testing.T) {
	k := find(t, "resourceclaims")
	registrytest.Create(t, k, claim(), claimChanges())
	registrytest.Update(t, k, "", claim(), []claimChange{
		{Name: "labels", To: func(c *resourcev1.ResourceClaim) { c.Labels = map[string]string{"a": "b"} }},
		{Name: "another count", To: request(func(r *resourcev1.ExactDeviceRequest) { r.Count = 2 }), Refused: []string{`spec: Invalid value: null: field is immutable`}},
	})
}

func TestResourceClaimTemplate(t *testing.T) {
	k := find(t, "resourceclaimtemplates")
	template := func() *resourcev1.ResourceClaimTemplate {
		return &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: "t", Namespace: "ns"}, Spec: resourcev1.ResourceClaimTemplateSpec{Spec: claim().Spec}}
	}
	type change = registrytest.Change[*resourcev1.ResourceClaimTemplate]
	changes := []change{{Name: "metadata", To: func(t *resourcev1.ResourceClaimTemplate) {
		t.Spec.Name, t.Spec.Labels = "x", map[string]string{"a b": ""}
	}, Refused: []string{
		`spec.metadata.labels: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`,
		`spec.metadata.name: Forbidden: cannot be set`}}}
	for _, c := range claimChanges() {
		var refused []string
		for _, r := range c.Refused {
			refused = append(refused, "spec."+r)
		}
		changes = append(changes, change{Name: c.Name, To: func(t *resourcev1.ResourceClaimTemplate) {
			of := &resourcev1.ResourceClaim{Spec: t.Spec.Spec}
			c.To(of)
			t.Spec.Spec = of.Spec
		}, Refused: refused})
	}
	registrytest.Create(t, k, template(), changes)
	t2 := template()
	t2.Spec.Labels = map[string]string{"a": "b"}
	errs := registrytest.Replace(k, "", t2, template())
	if len(errs) != 1 || errs[0].Field != "spec" || !strings.Contains(errs[0].Error(), `"Spec":{"Devices":{"Requests":[{"Name":"gpu","Exactly":{"DeviceClassName"`) {
		t.Errorf("another template: %v", errs)
	}
}

func TestDefaults(t *testing.T) {
	c := &resourcev1.ResourceClaim{Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{
		{Exactly: &resourcev1.ExactDeviceRequest{Tolerations: make([]resourcev1.DeviceToleration, 1)}},
		{FirstAvailable: []resourcev1.DeviceSubRequest{{Tolerations: make([]resourcev1.DeviceToleration, 1)}, {AllocationMode: "All"}}},
	}}}}
	c.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{{Tolerations: make([]resourcev1.DeviceToleration, 1)}}}}
	find(t, "resourceclaims").Rules.Default(c)
	e, subs := c.Spec.Devices.Requests[0].Exactly, c.Spec.Devices.Requests[1].FirstAvailable
	if e.AllocationMode != "ExactCount" || e.Count != 1 || e.Tolerations[0].Operator != "Equal" || subs[0].Count != 1 || subs[0].Tolerations[0].Operator != "Equal" ||
		subs[1].Count != 0 || c.Status.Allocation.Devices.Results[0].Tolerations[0].Operator != "Equal" {
		t.Errorf("%+v", c)
	}
	tmpl := &resourcev1.ResourceClaimTemplate{}
	tmpl.Spec.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Exactly: &resourcev1.ExactDeviceRequest{}}}
	find(t, "resourceclaimtemplates").Rules.Default(tmpl)
	if tmpl.Spec.Spec.Devices.Requests[0].Exactly.Count != 1 {
		t.Errorf("%+v", tmpl)
	}
}

// TestDerived: derived attributes are off by default.
func TestDerived(t *testing.T) {
	k := find(t, "resourceclaims")
	with := func() *resourcev1.ResourceClaim {
		c := claim()
		c.Spec.Devices.Requests[0].Exactly.DerivedAttributes = make([]resourcev1.DeviceDerivedAttribute, 1)
		c.Spec.Devices.Requests[1].FirstAvailable[0].DerivedAttributes = make([]resourcev1.DeviceDerivedAttribute, 1)
		return c
	}
	has := func(c *resourcev1.ResourceClaim) bool {
		return c.Spec.Devices.Requests[0].Exactly.DerivedAttributes != nil || c.Spec.Devices.Requests[1].FirstAvailable[0].DerivedAttributes != nil
	}
	c := with()
	c.Status = allocated().Status
	k.Rules.PrepareCreate(t.Context(), c)
	if has(c) || c.Status.Allocation != nil || c.Generation != 0 {
		t.Errorf("created: %+v", c)
	}
	for name, tt := range map[string]struct {
		old  *resourcev1.ResourceClaim
		kept bool
	}{"none": {claim(), false}, "some": {with(), true}} {
		c := with()
		if k.Rules.PrepareUpdate(t.Context(), c, tt.old); has(c) != tt.kept {
			t.Errorf("%s before: %+v", name, c)
		}
	}
}

func TestClaimStatus(t *testing.T) {
	k := find(t, "resourceclaims")
	result := func(to func(*resourcev1.DeviceRequestAllocationResult)) func(*resourcev1.ResourceClaim) {
		return func(c *resourcev1.ResourceClaim) {
			c.Status = allocated().Status
			c.Status.Devices, c.Status.ReservedFor = nil, nil
			to(&c.Status.Allocation.Devices.Results[0])
		}
	}
	const at = `status.allocation.devices.results[0].`
	registrytest.Update(t, k, "status", claim(), []claimChange{
		{Name: "allocated", To: func(c *resourcev1.ResourceClaim) { c.Status = allocated().Status }},
		{Name: "the spec stays", To: request(func(r *resourcev1.ExactDeviceRequest) { r.Count = -1 })},
		{Name: "reserved and not allocated", To: func(c *resourcev1.ResourceClaim) { c.Status.ReservedFor = allocated().Status.ReservedFor }, Refused: []string{
			"status.reservedFor: Forbidden: may not be specified when `allocated` is not set"}},
		{Name: "another request", To: result(func(r *resourcev1.DeviceRequestAllocationResult) { r.Request = "x" }), Refused: []string{
			at + `request: Invalid value: "x": ` + noRequest}},
		{Name: "nowhere", To: result(func(r *resourcev1.DeviceRequestAllocationResult) { r.Driver, r.Pool, r.Device = "", "", "A" }), Refused: []string{
			at + `device: Invalid value: "A": ` + label, at + `driver: Required value`, at + `pool: Required value`}},
		{Name: "a share", To: result(func(r *resourcev1.DeviceRequestAllocationResult) { r.ShareID = new(types.UID("x")) }), Refused: []string{
			at + `shareID: Invalid value: "x": must be a lowercase UUID in 8-4-4-4-12 format`}},
		{Name: "conditions", To: result(func(r *resourcev1.DeviceRequestAllocationResult) {
			r.BindingConditions, r.BindingFailureConditions = []string{"a", "a"}, []string{"b", "b", "a"}
		}), Refused: []string{
			at + `bindingConditions[1]: Duplicate value: "a"`, at + `bindingFailureConditions[1]: Duplicate value: "b"`,
			at + `bindingFailureConditions[2]: Invalid value: "a": bindingFailureConditions must not overlap with bindingConditions`}},
		{Name: "no failures", To: result(func(r *resourcev1.DeviceRequestAllocationResult) { r.BindingConditions = []string{"a"} }), Refused: []string{
			at + `bindingFailureConditions: Invalid value: null: bindingFailureConditions are required to use bindingConditions`}},
		{Name: "failures alone", To: result(func(r *resourcev1.DeviceRequestAllocationResult) {
			r.BindingFailureConditions = []string{"a", "b", "c", "d", "e"}
		}), Refused: []string{
			at + `bindingConditions: Invalid value: null: bindingConditions are required to use bindingFailureConditions`,
			at + `bindingFailureConditions: Too many: 5: must have at most 4 items`}},
		{Name: "a source", To: func(c *resourcev1.ResourceClaim) {
			c.Status = allocated().Status
			c.Status.Allocation.Devices.Config[0].Source = "x"
		}, Refused: []string{`status.allocation.devices.config[0].source: Unsupported value: "x": supported values: "FromClaim", "FromClass"`}},
		{Name: "nodes", To: func(c *resourcev1.ResourceClaim) {
			c.Status = allocated().Status
			c.Status.Allocation.NodeSelector.NodeSelectorTerms = nil
		}, Refused: []string{`status.allocation.nodeSelector.nodeSelectorTerms: Required value: must have at least one node selector term`}},
	})
	reported := func(to func(*resourcev1.AllocatedDeviceStatus)) func(*resourcev1.ResourceClaim) {
		return func(c *resourcev1.ResourceClaim) { to(&c.Status.Devices[0]) }
	}
	registrytest.Update(t, k, "status", allocated(), []claimChange{
		{Name: "another allocation", To: func(c *resourcev1.ResourceClaim) { c.Status.Allocation.NodeSelector = nil }, Refused: []string{
			`status.allocation: Invalid value: null: field cannot be modified once set`}},
		{Name: "deallocated", To: func(c *resourcev1.ResourceClaim) { c.Status = resourcev1.ResourceClaimStatus{} }},
		{Name: "nobody", To: func(c *resourcev1.ResourceClaim) {
			c.Status.ReservedFor = append(c.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{})
		}, Refused: []string{`status.reservedFor[1].resource: Required value`, `status.reservedFor[1].name: Required value`, `status.reservedFor[1].uid: Required value`}},
		{Name: "too many", To: func(c *resourcev1.ResourceClaim) {
			c.Status.ReservedFor = make([]resourcev1.ResourceClaimConsumerReference, 257)
		}, Refused: []string{`status.reservedFor: Too many: 257: must have at most 256 items`}},
		{Name: "another device", To: reported(func(s *resourcev1.AllocatedDeviceStatus) { s.Device = "gpu-9" }), Refused: []string{
			`status.devices[0]: Invalid value: {"Driver":"gpu.example.com","Pool":"pool","Device":"gpu-9","ShareID":"` + share + `"}: must be an allocated device in the claim`}},
		{Name: "data", To: reported(func(s *resourcev1.AllocatedDeviceStatus) { s.Data = &runtime.RawExtension{Raw: []byte("1")} }), Refused: []string{
			`status.devices[0].data: Invalid value: "<value omitted>": must be a valid JSON object`}},
		{Name: "network", To: reported(func(s *resourcev1.AllocatedDeviceStatus) {
			s.NetworkData = &resourcev1.NetworkDeviceData{InterfaceName: repeat(257), IPs: []string{"10.0.0.0/8", "10.0.0.0/8", "x"}, HardwareAddress: repeat(129)}
		}), Refused: []string{
			`status.devices[0].networkData.ips[2]: Invalid value: "x": must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)`,
			`status.devices[0].networkData.interfaceName: Too long: may not be more than 256 bytes`,
			`status.devices[0].networkData.ips[1]: Duplicate value: "10.0.0.0/8"`,
			`status.devices[0].networkData.hardwareAddress: Too long: may not be more than 128 bytes`}},
		{Name: "conditions", To: reported(func(s *resourcev1.AllocatedDeviceStatus) { s.Conditions = make([]metav1.Condition, 0, 9) })},
	})
	ending := allocated()
	ending.DeletionTimestamp, ending.DeletionGracePeriodSeconds, ending.Finalizers = new(metav1.Unix(1, 0)), new(int64(0)), []string{"a/b"}
	registrytest.Update(t, k, "status", ending, []claimChange{
		{Name: "another pod", To: func(c *resourcev1.ResourceClaim) {
			c.Status.ReservedFor = append(c.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: "b", UID: "2"})
		}, Refused: []string{"status.reservedFor: Forbidden: new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"}},
		{Name: "no pod", To: func(c *resourcev1.ResourceClaim) { c.Status.ReservedFor = nil }},
	})
}

// TestDeallocated: the state of devices ends with their allocation.
func TestDeallocated(t *testing.T) {
	view := find(t, "resourceclaims").Sub.Views["status"]
	c := allocated()
	c.Status.Allocation = nil
	view.PrepareUpdate(t.Context(), c, allocated())
	if c.Status.Devices != nil {
		t.Errorf("%+v", c.Status)
	}
	c = claim()
	c.Status = allocated().Status
	c.Status.Allocation.Devices.Results[0].SkipNodeOperations = []resourcev1.SkipNodeOperation{"*"}
	view.PrepareUpdate(t.Context(), c, claim())
	if len(c.Status.Devices) != 1 || c.Status.Allocation.Devices.Results[0].SkipNodeOperations != nil {
		t.Errorf("%+v", c.Status)
	}
}
