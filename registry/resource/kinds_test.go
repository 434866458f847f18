package resource_test

import (
	"fmt"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/api/resource/v1beta1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/registrytest"
	kinds "github.com/keelson-dev/keelson/registry/resource"
)

func TestKinds(t *testing.T) { registrytest.Kinds(t, kinds.Kinds(options())) }

func find(t *testing.T, plural string) registry.Kind {
	t.Helper()
	return registrytest.Find(t, kinds.Kinds(options()), plural)
}

func TestDeviceClass(t *testing.T) {
	k := find(t, "deviceclasses")
	type change = registrytest.Change[*resourcev1.DeviceClass]
	changes := []change{
		{Name: "nothing", To: func(c *resourcev1.DeviceClass) { c.Spec = resourcev1.DeviceClassSpec{} }},
		{Name: "no expression", To: func(c *resourcev1.DeviceClass) { c.Spec.Selectors[0].CEL = nil }, Refused: []string{
			`spec.selectors[0].cel: Required value`}},
		{Name: "expressions", To: func(c *resourcev1.DeviceClass) { c.Spec.Selectors = selecting("x", "dear", "broken", repeat(10<<10+1)) }, Refused: []string{
			`spec.selectors[0].cel.expression: Invalid value: "x": compilation failed`,
			`spec.selectors[1].cel.expression: Forbidden: too complex, exceeds cost limit`,
			`spec.selectors[2].cel.expression: Internal error: no environment`,
			`spec.selectors[3].cel.expression: Too long: may not be more than 10240 bytes`}},
		{Name: "too many selectors", To: func(c *resourcev1.DeviceClass) { c.Spec.Selectors = make([]resourcev1.DeviceSelector, 33) }, Refused: []string{
			`spec.selectors: Too many: 33: must have at most 32 items`}},
		{Name: "no driver's", To: func(c *resourcev1.DeviceClass) { c.Spec.Config[0].Opaque = nil }, Refused: []string{
			`spec.config[0].opaque: Required value`}},
		{Name: "another driver", To: func(c *resourcev1.DeviceClass) { c.Spec.Config[0].Opaque.Driver = "" }, Refused: []string{
			`spec.config[0].opaque.driver: Required value`}},
		{Name: "a long driver", To: func(c *resourcev1.DeviceClass) { c.Spec.Config[0].Opaque.Driver = repeat(64) }, Refused: []string{
			`spec.config[0].opaque.driver: Too long: may not be more than 63 characters`}},
		{Name: "too many", To: func(c *resourcev1.DeviceClass) { c.Spec.Config = make([]resourcev1.DeviceClassConfiguration, 33) }, Refused: []string{
			`spec.config: Too many: 33: must have at most 32 items`}},
		{Name: "a resource of Kubernetes", To: func(c *resourcev1.DeviceClass) { c.Spec.ExtendedResourceName = new("cpu") }, Refused: []string{
			`spec.extendedResourceName: Invalid value: "cpu": a name must be a domain-prefixed path, such as 'example.com/my-prop'`}},
	}
	for _, bad := range []struct{ parameters, want string }{
		{``, `Required value`}, {`null`, `Required value`}, {`[]`, `Invalid value: "<value omitted>": must be a valid JSON object`},
		{`{`, `Invalid value: "<value omitted>": error parsing data as JSON: unexpected end of JSON input`},
		{`"` + repeat(10<<10) + `"`, `Too long: may not be more than 10240 bytes`},
	} {
		changes = append(changes, change{Name: "parameters " + bad.want, To: func(c *resourcev1.DeviceClass) {
			c.Spec.Config[0].Opaque.Parameters.Raw = []byte(bad.parameters)
		}, Refused: []string{`spec.config[0].opaque.parameters: ` + bad.want}})
	}
	registrytest.Create(t, k, class(), changes)
	registrytest.Update(t, k, "", class(), changes)
	old := class()
	old.Spec.Selectors, old.Spec.Config[0] = selecting("x"), resourcev1.DeviceClassConfiguration{DeviceConfiguration: opaque(`{"a":"` + repeat(10<<10) + `"}`)}
	old.Spec.ExtendedResourceName = new("cpu")
	now := old.DeepCopy()
	now.Labels = map[string]string{"a": "b"}
	if errs := registrytest.Replace(k, "", now, old); len(errs) != 1 || errs[0].Detail != "must be a valid extended resource name" {
		t.Errorf("what has been valid: %v", errs)
	}
}

func TestDeviceTaintRule(t *testing.T) {
	k := find(t, "devicetaintrules")
	type change = registrytest.Change[*resourcev1.DeviceTaintRule]
	changes := []change{
		{Name: "all devices", To: func(r *resourcev1.DeviceTaintRule) { r.Spec.DeviceSelector = nil }},
		{Name: "selected by nothing", To: func(r *resourcev1.DeviceTaintRule) {
			r.Spec.DeviceSelector = &resourcev1.DeviceTaintSelector{Driver: new(""), Pool: new(""), Device: new("A")}
		}, Refused: []string{
			`spec.deviceSelector.driver: Required value`, `spec.deviceSelector.pool: Required value`,
			`spec.deviceSelector.device: Invalid value: "A": ` + label}},
		{Name: "no key", To: func(r *resourcev1.DeviceTaintRule) { r.Spec.Taint.Key, r.Spec.Taint.Value = "", "" }, Refused: []string{
			`spec.taint.key: Invalid value: "": name part must be non-empty`,
			`spec.taint.key: Invalid value: "": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`}},
		{Name: "a value", To: func(r *resourcev1.DeviceTaintRule) { r.Spec.Taint.Value = "a b" }, Refused: []string{
			`spec.taint.value: Invalid value: "a b": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`}},
		{Name: "no effect", To: func(r *resourcev1.DeviceTaintRule) { r.Spec.Taint.Effect = "" }, Refused: []string{`spec.taint.effect: Required value`}},
		{Name: "an effect", To: func(r *resourcev1.DeviceTaintRule) { r.Spec.Taint.Effect = "Evict" }, Refused: []string{
			`spec.taint.effect: Unsupported value: "Evict": supported values: "NoExecute", "NoSchedule", "None"`}},
	}
	registrytest.Create(t, k, taintRule(), changes)
	registrytest.Update(t, k, "", taintRule(), changes)
	registrytest.Update(t, k, "status", taintRule(), []change{
		{Name: "a condition", To: func(r *resourcev1.DeviceTaintRule) {
			r.Status.Conditions = []metav1.Condition{{Type: "A", Status: "x", Reason: "B", LastTransitionTime: metav1.Unix(1, 0)}}
		}, Refused: []string{`status.conditions[0].status: Unsupported value: "x": supported values: "False", "True", "Unknown"`}},
		{Name: "many conditions", To: func(r *resourcev1.DeviceTaintRule) {
			for i := range 9 {
				r.Status.Conditions = append(r.Status.Conditions, metav1.Condition{Type: fmt.Sprintf("A%d", i), Status: "True", Reason: "B", LastTransitionTime: metav1.Unix(1, 0)})
			}
		}, Refused: []string{`status.conditions: Too many: 9: must have at most 8 items`}},
	})
}

// TestTimeAdded: the time of a taint begins anew with another effect, unless the client sets it.
func TestTimeAdded(t *testing.T) {
	k := find(t, "devicetaintrules")
	fresh := &resourcev1.DeviceTaintRule{}
	k.Rules.Default(fresh)
	if fresh.Spec.Taint.TimeAdded == nil || fresh.Spec.Taint.TimeAdded.Nanosecond() != 0 {
		t.Errorf("by default %v", fresh.Spec.Taint.TimeAdded)
	}
	for name, tt := range map[string]struct {
		to  func(*resourcev1.DeviceTaint)
		new bool
	}{
		"the same":       {func(*resourcev1.DeviceTaint) {}, false},
		"another value":  {func(t *resourcev1.DeviceTaint) { t.Value = "y" }, false},
		"another effect": {func(t *resourcev1.DeviceTaint) { t.Effect = resourcev1.DeviceTaintEffectNone }, true},
		"both": {func(t *resourcev1.DeviceTaint) {
			t.Effect, t.TimeAdded = resourcev1.DeviceTaintEffectNone, new(metav1.Unix(2, 0))
		}, false},
	} {
		r := taintRule()
		tt.to(&r.Spec.Taint)
		k.Rules.PrepareUpdate(t.Context(), r, taintRule())
		if got := r.Spec.Taint.TimeAdded.Unix() > 2; got != tt.new {
			t.Errorf("%s: %v", name, r.Spec.Taint.TimeAdded)
		}
		if changed := name != "the same"; (r.Generation == 2) != changed {
			t.Errorf("%s: generation %d", name, r.Generation)
		}
	}
}

// TestOlder: what servers stored as v1beta1 is read.
func TestOlder(t *testing.T) {
	for _, tt := range []struct {
		plural string
		old    runtime.Object
		want   registry.Object
	}{
		{"resourceclaims", &v1beta1.ResourceClaim{Spec: v1beta1.ResourceClaimSpec{Devices: v1beta1.DeviceClaim{Requests: []v1beta1.DeviceRequest{
			{Name: "a", DeviceClassName: "x", AllocationMode: v1beta1.DeviceAllocationModeAll, AdminAccess: new(true)}, {Name: "b", FirstAvailable: []v1beta1.DeviceSubRequest{{Name: "c"}}},
		}}}}, &resourcev1.ResourceClaim{Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{
			{Name: "a", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "x", AllocationMode: resourcev1.DeviceAllocationModeAll, AdminAccess: new(true)}},
			{Name: "b", FirstAvailable: []resourcev1.DeviceSubRequest{{Name: "c"}}},
		}}}}},
		{"resourceclaimtemplates", &v1beta1.ResourceClaimTemplate{Spec: v1beta1.ResourceClaimTemplateSpec{Spec: v1beta1.ResourceClaimSpec{Devices: v1beta1.DeviceClaim{
			Requests: []v1beta1.DeviceRequest{{Name: "a", Count: 2}},
		}}}}, &resourcev1.ResourceClaimTemplate{Spec: resourcev1.ResourceClaimTemplateSpec{Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{
			Requests: []resourcev1.DeviceRequest{{Name: "a", Exactly: &resourcev1.ExactDeviceRequest{Count: 2}}},
		}}}}},
		{"resourceslices", &v1beta1.ResourceSlice{Spec: v1beta1.ResourceSliceSpec{NodeName: "n", AllNodes: true, Devices: []v1beta1.Device{
			{Name: "a", Basic: &v1beta1.BasicDevice{Attributes: map[v1beta1.QualifiedName]v1beta1.DeviceAttribute{"x": {IntValue: new(int64(1))}}, BindsToNode: new(true)}},
		}}}, &resourcev1.ResourceSlice{Spec: resourcev1.ResourceSliceSpec{NodeName: new("n"), AllNodes: new(true), Devices: []resourcev1.Device{
			{Name: "a", Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"x": {IntValue: new(int64(1))}}, BindsToNode: new(true)},
		}}}},
	} {
		k := find(t, tt.plural)
		for _, o := range k.Older {
			if o.GroupVersion.Version != "v1beta1" {
				continue
			}
			if got := o.ToStored(tt.old); !equality.Semantic.DeepEqual(got, tt.want) {
				t.Errorf("%s: %+v", tt.plural, got)
			}
		}
	}
	if as := find(t, "devicetaintrules").StoredAs(); as.Version != "v1beta2" {
		t.Errorf("taint rules are stored as %s", as)
	}
}

// Without a compiler, no selector with an expression is accepted.
func Example() {
	k := kinds.Kinds(kinds.Options{})[0]
	c := class()
	fmt.Println(k.Plural, k.Rules.Validate(c).ToAggregate())
	c.Spec.Selectors = nil
	fmt.Println(k.Plural, k.Rules.Validate(c).ToAggregate())
	// Output:
	// deviceclasses spec.selectors[0].cel.expression: Forbidden: this server does not have a compiler of CEL expressions
	// deviceclasses <nil>
}
