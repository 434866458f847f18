package resource

import (
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/podspec"
	"github.com/keelson-dev/keelson/registry/internal/check"
)

const trueOrUnset = "must be either unset or set to true"

// validateSlice validates the spec of a slice; old is nil in a create.
func validateSlice(s, old *resourcev1.ResourceSliceSpec) field.ErrorList {
	p := field.NewPath("spec")
	errs := validateDriver(s.Driver, p.Child("driver"))
	pool := p.Child("pool")
	errs = append(errs, validatePool(s.Pool.Name, pool.Child("name"))...)
	if s.Pool.ResourceSliceCount <= 0 {
		errs = append(errs, field.Invalid(pool.Child("resourceSliceCount"), s.Pool.ResourceSliceCount, "must be greater than zero"))
	}
	if s.Pool.Generation < 0 {
		errs = append(errs, field.Invalid(pool.Child("generation"), s.Pool.Generation, "must be greater than or equal to zero"))
	}
	if old != nil {
		errs = append(errs, check.Immutable(pool.Child("name"), s.Pool.Name, old.Pool.Name)...)
		errs = append(errs, check.Immutable(p.Child("driver"), s.Driver, old.Driver)...)
		errs = append(errs, check.Immutable(p.Child("nodeName"), s.NodeName, old.NodeName)...)
	}
	errs = append(errs, validateNodes(s, p)...)
	if s.SharedCounters != nil && s.Devices != nil {
		errs = append(errs, field.Invalid(p, "", "only one of `sharedCounters` or `devices` is allowed"))
	}
	errs = append(errs, validateDevices(s, old, p.Child("devices"))...)
	counters := p.Child("sharedCounters")
	errs = append(errs, covered(validateSet(s.SharedCounters, resourcev1.ResourceSliceMaxCounterSets, validateCounterSet,
		func(c resourcev1.CounterSet) string { return c.Name }, counters))...)
	return check.Declared(errs, declarations{}.slice(s, old, p))
}

// nodes are the ways to say on which nodes something is.
type nodes struct {
	name      *string
	selector  *corev1.NodeSelector
	all       *bool
	perDevice *bool // in slices alone

	empty, oneTerm, only string // messages
}

func validateNodes(s *resourcev1.ResourceSliceSpec, p *field.Path) field.ErrorList {
	return nodes{
		name: s.NodeName, selector: s.NodeSelector, all: s.AllNodes, perDevice: s.PerDeviceNodeSelection,
		empty: "must be either unset or set to a non-empty string", oneTerm: "must have exactly one node selector term",
		only: "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required",
	}.validate(p, ", but multiple fields are set")
}

func (n nodes) validate(p *field.Path, several string) field.ErrorList {
	var errs field.ErrorList
	var set []string
	if n.name != nil {
		if *n.name == "" {
			errs = append(errs, field.Invalid(p.Child("nodeName"), "", n.empty))
		} else {
			set = append(set, "`nodeName`")
			errs = append(errs, check.NodeName(p.Child("nodeName"), *n.name)...)
		}
	}
	if n.selector != nil {
		set = append(set, "`nodeSelector`")
		errs = append(errs, podspec.ValidateNodeSelector(n.selector, p.Child("nodeSelector"))...)
		if n.oneTerm != "" && len(n.selector.NodeSelectorTerms) != 1 {
			errs = append(errs, field.Invalid(p.Child("nodeSelector", "nodeSelectorTerms"), podspec.Shown(n.selector.NodeSelectorTerms), n.oneTerm))
		}
	}
	for _, f := range []struct {
		name  string
		value *bool
	}{{"allNodes", n.all}, {"perDeviceNodeSelection", n.perDevice}} {
		switch {
		case f.value == nil:
		case *f.value:
			set = append(set, "`"+f.name+"`")
		default:
			errs = append(errs, field.Invalid(p.Child(f.name), false, trueOrUnset))
		}
	}
	switch len(set) {
	case 0:
		return append(errs, field.Required(p, n.only))
	case 1:
		return errs
	}
	return append(errs, field.Invalid(p, "{"+strings.Join(set, ", ")+"}", n.only+several))
}

func validateDevices(s, old *resourcev1.ResourceSliceSpec, p *field.Path) field.ErrorList {
	most := resourcev1.ResourceSliceMaxDevices
	if some(s, func(d *resourcev1.Device) bool {
		return len(d.Taints) > 0 || len(d.ConsumesCounters) > 0 || hasLists(d)
	}) {
		most = resourcev1.ResourceSliceMaxDevicesWithAdvancedFeatures
	}
	perDevice := s.PerDeviceNodeSelection != nil && *s.PerDeviceNodeSelection
	return validateSet(s.Devices, most, func(d resourcev1.Device, p *field.Path) field.ErrorList {
		return validateDevice(&d, deviceNamed(old, d.Name), p, perDevice)
	}, func(d resourcev1.Device) string { return d.Name }, p)
}

func deviceNamed(s *resourcev1.ResourceSliceSpec, name string) *resourcev1.Device {
	if s != nil {
		for i := range s.Devices {
			if s.Devices[i].Name == name {
				return &s.Devices[i]
			}
		}
	}
	return nil
}

func validateDevice(d, old *resourcev1.Device, p *field.Path, perDevice bool) field.ErrorList {
	errs := validateLabel(d.Name, p.Child("name"))
	if n := len(d.Attributes) + len(d.Capacity); n > resourcev1.ResourceSliceMaxAttributesAndCapacitiesPerDevice {
		errs = append(errs, field.Invalid(p, n, fmt.Sprintf("the total number of attributes and capacities must not exceed %d",
			resourcev1.ResourceSliceMaxAttributesAndCapacitiesPerDevice)))
	}
	if n := countValues(d); n > resourcev1.ResourceSliceMaxAttributeValuesPerDevice {
		errs = append(errs, field.Invalid(p, n, fmt.Sprintf("the total number of attribute values must not exceed %d",
			resourcev1.ResourceSliceMaxAttributeValuesPerDevice)))
	}
	const longest = resourcev1.DeviceMaxDomainLength + 1 + resourcev1.DeviceMaxIDLength
	for name, a := range d.Attributes {
		at := p.Child("attributes")
		errs = append(errs, validateQualified(name, at)...)
		errs = append(errs, validateAttribute(&a, at.Key(shorten(string(name), longest)))...)
	}
	if old == nil || !equality.Semantic.DeepEqual(old.Capacity, d.Capacity) {
		shared := d.AllowMultipleAllocations != nil && *d.AllowMultipleAllocations
		for name, c := range d.Capacity {
			at := p.Child("capacity")
			errs = append(errs, validateQualified(name, at)...)
			errs = append(errs, validateCapacity(&c, shared, at.Key(shorten(string(name), longest)))...)
		}
	}
	if old == nil || !equality.Semantic.DeepEqual(old.Taints, d.Taints) {
		errs = append(errs, validateItems(d.Taints, resourcev1.DeviceTaintsMaxLength, func(t resourcev1.DeviceTaint, p *field.Path) field.ErrorList {
			return validateTaint(&t, p)
		}, p.Child("taints"))...)
	}
	consumes := p.Child("consumesCounters")
	errs = append(errs, covered(validateSet(d.ConsumesCounters, resourcev1.ResourceSliceMaxDeviceCounterConsumptionsPerDevice, validateConsumption,
		func(c resourcev1.DeviceCounterConsumption) string { return c.CounterSet }, consumes))...)
	errs = append(errs, validateNodesOf(d, perDevice, p)...)
	return append(errs, validateBinding(d.BindingConditions, d.BindingFailureConditions, p)...)
}

func validateNodesOf(d *resourcev1.Device, perDevice bool, p *field.Path) field.ErrorList {
	const set = "is set to true in the ResourceSlice spec"
	switch {
	case perDevice:
		return nodes{
			name: d.NodeName, selector: d.NodeSelector, all: d.AllNodes, empty: "must not be empty",
			only: "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` " + set,
		}.validate(p, "")
	case d.NodeName != nil || d.NodeSelector != nil || d.AllNodes != nil:
		return field.ErrorList{field.Invalid(p, nil, "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` "+set)}
	}
	return nil
}

// countValues counts the attributes of a device, and each value of those with several.
func countValues(d *resourcev1.Device) int {
	n := 0
	for _, a := range d.Attributes {
		n += max(1, len(a.BoolValues)+len(a.IntValues)+len(a.StringValues)+len(a.VersionValues))
	}
	return n
}

// shorten leaves out what is in the middle of a long key.
func shorten(key string, most int) string {
	if len(key) <= most {
		return key
	}
	rest := most - len("...")
	return key[:(rest+1)/2] + "..." + key[len(key)-rest/2:]
}

func validateCounterSet(c resourcev1.CounterSet, p *field.Path) field.ErrorList {
	return validateCounters(c.Name, p.Child("name"), c.Counters, p.Child("counters"), resourcev1.ResourceSliceMaxCountersPerCounterSet)
}

func validateConsumption(c resourcev1.DeviceCounterConsumption, p *field.Path) field.ErrorList {
	return validateCounters(c.CounterSet, p.Child("counterSet"), c.Counters, p.Child("counters"), resourcev1.ResourceSliceMaxCountersPerDeviceCounterConsumption)
}

func validateCounters(name string, at *field.Path, counters map[string]resourcev1.Counter, p *field.Path, most int) field.ErrorList {
	var errs field.ErrorList
	if name == "" {
		errs = append(errs, field.Required(at, "").MarkCoveredByDeclarative())
	} else {
		errs = append(errs, validateLabel(name, at).MarkCoveredByDeclarative()...)
	}
	switch n := len(counters); {
	case n == 0:
		return append(errs, field.Required(p, "").MarkCoveredByDeclarative())
	case n > most:
		return append(errs, field.TooMany(p, n, most))
	}
	for key := range counters {
		errs = append(errs, validateLabel(key, p).MarkCoveredByDeclarative()...)
	}
	return errs
}

func validateAttribute(a *resourcev1.DeviceAttribute, p *field.Path) field.ErrorList {
	const empty = "must not be empty if specified"
	var errs field.ErrorList
	refuse := func(is bool, name string, value any) {
		if is {
			errs = append(errs, field.Invalid(p.Child(name), value, empty))
		}
	}
	if a.StringValue != nil {
		errs = append(errs, validateText(*a.StringValue, p.Child("string"))...)
	}
	if a.VersionValue != nil {
		errs = append(errs, validateVersion(*a.VersionValue, p.Child("version"))...)
	}
	refuse(a.BoolValues != nil && len(a.BoolValues) == 0, "bools", a.BoolValues)
	refuse(a.IntValues != nil && len(a.IntValues) == 0, "ints", a.IntValues)
	refuse(a.StringValues != nil && len(a.StringValues) == 0, "strings", a.StringValues)
	errs = append(errs, validateItems(a.StringValues, 0, validateText, p.Child("strings"))...)
	refuse(a.VersionValues != nil && len(a.VersionValues) == 0, "versions", a.VersionValues)
	errs = append(errs, validateItems(a.VersionValues, 0, validateVersion, p.Child("versions"))...)
	if n := len(valuesOf(a, 0)); n != 1 {
		errs = append(errs, field.Invalid(p, "", "exactly one value must be specified").WithOrigin("union").MarkCoveredByDeclarative())
	}
	return errs
}

// valuesOf returns the names of the fields that are set; lists are if they have so many values.
func valuesOf(a *resourcev1.DeviceAttribute, least int) []string {
	var set []string
	for _, f := range []struct {
		name string
		is   bool
	}{
		{"int", a.IntValue != nil}, {"bool", a.BoolValue != nil}, {"string", a.StringValue != nil}, {"version", a.VersionValue != nil},
		{"ints", a.IntValues != nil && len(a.IntValues) >= least}, {"bools", a.BoolValues != nil && len(a.BoolValues) >= least}, {"strings", a.StringValues != nil && len(a.StringValues) >= least}, {"versions", a.VersionValues != nil && len(a.VersionValues) >= least},
	} {
		if f.is {
			set = append(set, f.name)
		}
	}
	return set
}

func validateText(s string, p *field.Path) field.ErrorList {
	if len(s) > resourcev1.DeviceAttributeMaxValueLength {
		return field.ErrorList{field.TooLong(p, "", resourcev1.DeviceAttributeMaxValueLength)}
	}
	return nil
}

func validateVersion(s string, p *field.Path) field.ErrorList {
	var errs field.ErrorList
	if !isSemver(s) {
		errs = append(errs, field.Invalid(p, s, "must be a string compatible with semver.org spec 2.0.0"))
	}
	return append(errs, validateText(s, p)...)
}

// isSemver reports whether a text is a version of semver.org 2.0.0.
func isSemver(s string) bool {
	const number = `(0|[1-9]\d*)`
	const before = `(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)`
	const build = `[0-9a-zA-Z-]+`
	ok, _ := regexp.MatchString(`^`+number+`\.`+number+`\.`+number+`(-`+before+`(\.`+before+`)*)?(\+`+build+`(\.`+build+`)*)?$`, s)
	return ok
}
