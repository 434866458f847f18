package resource_test

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	kinds "github.com/keelson-dev/keelson/registry/resource"
)

const (
	label     = `a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`
	subdomain = `a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`
	noRequest = `must be the name of a request in the claim or the name of a request and a subrequest separated by '/'`
	driver    = "gpu.example.com"
	share     = "123e4567-e89b-12d3-a456-426614174000"
)

// refusal is an error of a compiler.
type refusal string

func (r refusal) Error() string { return string(r) }

// compile knows some expressions.
func compile(expression string) (uint64, error) {
	switch expression {
	case "true":
		return 1, nil
	case "limit":
		return resourcev1.CELSelectorExpressionMaxCost, nil
	case "dear":
		return resourcev1.CELSelectorExpressionMaxCost + 1, nil
	case "odd":
		return 0, &field.Error{Type: field.ErrorTypeInvalid, Field: "x", BadValue: "y", Detail: "odd"}
	case "broken":
		return 0, &field.Error{Type: field.ErrorTypeInternal, Detail: "no environment"}
	}
	return 0, refusal("compilation failed")
}

func options() kinds.Options { return kinds.Options{Compile: compile} }

func selecting(expressions ...string) []resourcev1.DeviceSelector {
	var out []resourcev1.DeviceSelector
	for _, e := range expressions {
		out = append(out, resourcev1.DeviceSelector{CEL: &resourcev1.CELDeviceSelector{Expression: e}})
	}
	return out
}

func opaque(parameters string) resourcev1.DeviceConfiguration {
	return resourcev1.DeviceConfiguration{Opaque: &resourcev1.OpaqueDeviceConfiguration{
		Driver: driver, Parameters: runtime.RawExtension{Raw: []byte(parameters)},
	}}
}

func class() *resourcev1.DeviceClass {
	return &resourcev1.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: driver, Generation: 1},
		Spec: resourcev1.DeviceClassSpec{
			Selectors: selecting("true"), Config: []resourcev1.DeviceClassConfiguration{{DeviceConfiguration: opaque(`{"a":1}`)}},
			ExtendedResourceName: new("example.com/gpu"),
		},
	}
}

func exactly(name string) resourcev1.DeviceRequest {
	return resourcev1.DeviceRequest{Name: name, Exactly: &resourcev1.ExactDeviceRequest{
		DeviceClassName: driver, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1,
	}}
}

func claim() *resourcev1.ResourceClaim {
	one := exactly("gpu")
	one.Exactly.Selectors = selecting("true")
	one.Exactly.Tolerations = []resourcev1.DeviceToleration{{Key: "a", Operator: resourcev1.DeviceTolerationOpEqual, Value: "b", Effect: resourcev1.DeviceTaintEffectNoSchedule}}
	sub := func(name string) resourcev1.DeviceSubRequest {
		return resourcev1.DeviceSubRequest{Name: name, DeviceClassName: driver, AllocationMode: resourcev1.DeviceAllocationModeAll}
	}
	return &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "ns"},
		Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{
			Requests:    []resourcev1.DeviceRequest{one, {Name: "any", FirstAvailable: []resourcev1.DeviceSubRequest{sub("a"), sub("b")}}},
			Constraints: []resourcev1.DeviceConstraint{{Requests: []string{"gpu", "any/a"}, MatchAttribute: new(resourcev1.FullyQualifiedName("example.com/model"))}},
			Config:      []resourcev1.DeviceClaimConfiguration{{Requests: []string{"gpu"}, DeviceConfiguration: opaque(`{}`)}},
		}},
	}
}

// allocated returns a claim with a device, and a pod that uses it.
func allocated() *resourcev1.ResourceClaim {
	c := claim()
	c.Status = resourcev1.ResourceClaimStatus{
		Allocation: &resourcev1.AllocationResult{
			Devices: resourcev1.DeviceAllocationResult{
				Results: []resourcev1.DeviceRequestAllocationResult{
					{Request: "gpu", Driver: driver, Pool: "pool", Device: "gpu-0", ShareID: new(types.UID(share))},
					{Request: "any/b", Driver: driver, Pool: "pool", Device: "gpu-1"},
				},
				Config: []resourcev1.DeviceAllocationConfiguration{{Source: resourcev1.AllocationConfigSourceClass, Requests: []string{"gpu"}, DeviceConfiguration: opaque(`{}`)}},
			},
			NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
				{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"node-0"}},
			}}}},
		},
		ReservedFor: []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "web-0", UID: "1"}},
		Devices:     []resourcev1.AllocatedDeviceStatus{{Driver: driver, Pool: "pool", Device: "gpu-0", ShareID: new(share)}},
	}
	return c
}

func quantity(s string) *resource.Quantity { return new(resource.MustParse(s)) }

func device(name string) resourcev1.Device {
	return resourcev1.Device{
		Name: name,
		Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
			"model": {StringValue: new("a")},
		},
		Capacity: map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{
			"memory": {Value: resource.MustParse("10")},
		},
	}
}

func slice() *resourcev1.ResourceSlice {
	return &resourcev1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "s", Generation: 1},
		Spec: resourcev1.ResourceSliceSpec{
			Driver: driver, NodeName: new("node-0"), Pool: resourcev1.ResourcePool{Name: "pool/a", Generation: 1, ResourceSliceCount: 1},
			Devices: []resourcev1.Device{device("gpu-0"), device("gpu-1")},
		},
	}
}

func taintRule() *resourcev1.DeviceTaintRule {
	return &resourcev1.DeviceTaintRule{
		ObjectMeta: metav1.ObjectMeta{Name: "r", Generation: 1},
		Spec: resourcev1.DeviceTaintRuleSpec{
			DeviceSelector: &resourcev1.DeviceTaintSelector{Driver: new(driver), Pool: new("pool"), Device: new("gpu-0")},
			Taint:          resourcev1.DeviceTaint{Key: "example.com/broken", Value: "x", Effect: resourcev1.DeviceTaintEffectNoExecute, TimeAdded: new(metav1.Unix(1, 0))},
		},
	}
}

func repeat(n int) string { return strings.Repeat("x", n) }
