package resource

import (
	"context"
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/api/validate"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/registry/internal/check"
)

// declarations are the rules that upstream declares on the types of the API, beside those that it has written out. They
// are not applied to what an update leaves as it was: old values are nil, or empty, in a create. Where both refuse something,
// the words of a declaration replace the others.
type declarations struct{}

// anyOperation is for rules that judge a value, whatever is done to it.
func anyOperation() operation.Operation { return operation.Operation{} }

// apply applies a rule for one value; old is nil if there was none.
func apply[T any](rule validate.ValidateFunc[*T], p *field.Path, value, old *T) field.ErrorList {
	if equality.Semantic.DeepEqual(value, old) {
		return nil
	}
	return rule(context.Background(), anyOperation(), p, value, old)
}

// items describe a list.
type items[T any] struct {
	most int               // 0 means any number
	same func(a, b T) bool // whether items are those of one name; nil means that they have none
	rule func(p *field.Path, item, old *T) field.ErrorList
}

// list applies the rules of a list, and of its items unless there are too many.
func list[T any](of items[T], p *field.Path, values, old []T) field.ErrorList {
	if equality.Semantic.DeepEqual(values, old) {
		return nil
	}
	if of.most > 0 && len(values) > of.most {
		return field.ErrorList{field.TooMany(p, len(values), of.most).WithOrigin("maxItems")}
	}
	var errs field.ErrorList
	if of.same != nil {
		for i := range values {
			if slices.ContainsFunc(values[:i], func(v T) bool { return of.same(v, values[i]) }) {
				errs = append(errs, field.Duplicate(p.Index(i), values[i]))
			}
		}
	}
	if of.rule == nil {
		return errs
	}
	for i := range values {
		var before *T
		if of.same != nil {
			if at := slices.IndexFunc(old, func(v T) bool { return of.same(v, values[i]) }); at >= 0 {
				before = &old[at]
			}
		}
		errs = append(errs, of.rule(p.Index(i), &values[i], before)...)
	}
	return errs
}

// requires returns an error for an empty text, or those of the rules.
func requires[T ~string](p *field.Path, value, old *T, rules ...validate.ValidateFunc[*T]) field.ErrorList {
	if old != nil && *value == *old {
		return nil
	}
	if *value == "" {
		return field.ErrorList{field.Required(p, "")}
	}
	var errs field.ErrorList
	for _, rule := range rules {
		errs = append(errs, rule(context.Background(), anyOperation(), p, value, old)...)
	}
	return errs
}

// allows is requires for a text that may be empty.
func allows[T ~string](p *field.Path, value, old *T, rules ...validate.ValidateFunc[*T]) field.ErrorList {
	if *value == "" {
		return nil
	}
	return requires(p, value, old, rules...)
}

// oneOf is the rule that a text is one of those, in any order.
func oneOf[T ~string](supported []T) validate.ValidateFunc[*T] {
	return func(_ context.Context, _ operation.Operation, p *field.Path, value, _ *T) field.ErrorList {
		return check.OneOf(p, *value, slices.Sorted(slices.Values(supported))...)
	}
}

func maxBytes(n int) validate.ValidateFunc[*string] {
	return func(ctx context.Context, op operation.Operation, p *field.Path, value, old *string) field.ErrorList {
		return validate.MaxBytes(ctx, op, p, value, old, n)
	}
}

func maxLength(n int) validate.ValidateFunc[*string] {
	return func(ctx context.Context, op operation.Operation, p *field.Path, value, old *string) field.ErrorList {
		return validate.MaxLength(ctx, op, p, value, old, n)
	}
}

func sameString(a, b string) bool { return a == b }

// class has the declarations of classes; old is nil in a create.
func (d declarations) class(s, old *resourcev1.DeviceClassSpec, p *field.Path) field.ErrorList {
	before := old
	if before == nil {
		before = &resourcev1.DeviceClassSpec{}
	}
	errs := list(items[resourcev1.DeviceSelector]{most: resourcev1.DeviceSelectorsMaxSize}, p.Child("selectors"), s.Selectors, before.Selectors)
	errs = append(errs, list(items[resourcev1.DeviceClassConfiguration]{
		most: maxConfigs,
		rule: func(p *field.Path, c, _ *resourcev1.DeviceClassConfiguration) field.ErrorList {
			return d.configuration(&c.DeviceConfiguration, p)
		},
	}, p.Child("config"), s.Config, before.Config)...)
	if s.ExtendedResourceName != nil {
		errs = append(errs, apply(validate.ExtendedResourceName[string], p.Child("extendedResourceName"), s.ExtendedResourceName, before.ExtendedResourceName)...)
	}
	return errs
}

// configuration is about one that is not known from before: configurations have no names.
func (d declarations) configuration(c *resourcev1.DeviceConfiguration, p *field.Path) field.ErrorList {
	if c.Opaque == nil {
		return nil
	}
	return d.driver(&c.Opaque.Driver, p.Child("opaque", "driver"))
}

func (d declarations) driver(name *string, p *field.Path) field.ErrorList {
	//nolint:staticcheck // upstream's rule for these fields
	return requires(p, name, nil, validate.LongNameCaseless[string], maxLength(maxDriverBytes))
}

// claim has the declarations of new claims.
func (d declarations) claim(c *resourcev1.DeviceClaim, p *field.Path) field.ErrorList {
	return d.claimChange(c, nil, p)
}

// claimChange has the declarations of claims in templates, which may have been there before.
func (d declarations) claimChange(c, old *resourcev1.DeviceClaim, p *field.Path) field.ErrorList {
	if old == nil {
		old = &resourcev1.DeviceClaim{}
	}
	errs := list(items[resourcev1.DeviceRequest]{
		most: maxRequests, same: func(a, b resourcev1.DeviceRequest) bool { return a.Name == b.Name }, rule: d.request,
	}, p.Child("requests"), c.Requests, old.Requests)
	errs = append(errs, list(items[resourcev1.DeviceConstraint]{
		most: resourcev1.DeviceConstraintsMaxSize,
		rule: func(p *field.Path, c, _ *resourcev1.DeviceConstraint) field.ErrorList { return d.constraint(c, p) },
	}, p.Child("constraints"), c.Constraints, old.Constraints)...)
	return append(errs, list(items[resourcev1.DeviceClaimConfiguration]{
		most: maxConfigs,
		rule: func(p *field.Path, c, _ *resourcev1.DeviceClaimConfiguration) field.ErrorList {
			return append(d.names(c.Requests, p.Child("requests")), d.configuration(&c.DeviceConfiguration, p)...)
		},
	}, p.Child("config"), c.Config, old.Config)...)
}

func (d declarations) names(names []string, p *field.Path) field.ErrorList {
	return list(items[string]{most: maxRequests, same: sameString}, p, names, nil)
}

func (d declarations) constraint(c *resourcev1.DeviceConstraint, p *field.Path) field.ErrorList {
	errs := d.names(c.Requests, p.Child("requests"))
	if c.MatchAttribute != nil {
		errs = append(errs, apply(validate.ResourceFullyQualifiedName[resourcev1.FullyQualifiedName], p.Child("matchAttribute"), c.MatchAttribute, nil)...)
	}
	if c.DistinctAttribute != nil {
		errs = append(errs, apply(validate.ResourceFullyQualifiedName[resourcev1.FullyQualifiedName], p.Child("distinctAttribute"), c.DistinctAttribute, nil)...)
	}
	return errs
}

func (d declarations) request(p *field.Path, r, old *resourcev1.DeviceRequest) field.ErrorList {
	if old == nil {
		old = &resourcev1.DeviceRequest{}
	}
	var errs field.ErrorList
	if e := r.Exactly; e != nil {
		before := old.Exactly
		if before == nil {
			before = &resourcev1.ExactDeviceRequest{}
		}
		at := p.Child("exactly")
		errs = append(errs, list(items[resourcev1.DeviceSelector]{most: resourcev1.DeviceSelectorsMaxSize}, at.Child("selectors"), e.Selectors, before.Selectors)...)
		errs = append(errs, allows(at.Child("allocationMode"), &e.AllocationMode, &before.AllocationMode, oneOf(modes()))...)
		errs = append(errs, d.tolerations(e.Tolerations, before.Tolerations, at.Child("tolerations"))...)
	}
	return append(errs, list(items[resourcev1.DeviceSubRequest]{
		most: maxSubs, same: func(a, b resourcev1.DeviceSubRequest) bool { return a.Name == b.Name }, rule: d.sub,
	}, p.Child("firstAvailable"), r.FirstAvailable, old.FirstAvailable)...)
}

func (d declarations) sub(p *field.Path, s, old *resourcev1.DeviceSubRequest) field.ErrorList {
	var class *string
	if old != nil {
		class = &old.DeviceClassName
	} else {
		old = &resourcev1.DeviceSubRequest{}
	}
	errs := requires(p.Child("deviceClassName"), &s.DeviceClassName, class, validate.LongName[string])
	errs = append(errs, list(items[resourcev1.DeviceSelector]{most: resourcev1.DeviceSelectorsMaxSize}, p.Child("selectors"), s.Selectors, old.Selectors)...)
	errs = append(errs, allows(p.Child("allocationMode"), &s.AllocationMode, &old.AllocationMode, oneOf(modes()))...)
	return append(errs, d.tolerations(s.Tolerations, old.Tolerations, p.Child("tolerations"))...)
}

func (d declarations) tolerations(all, old []resourcev1.DeviceToleration, p *field.Path) field.ErrorList {
	return list(items[resourcev1.DeviceToleration]{rule: func(p *field.Path, t, _ *resourcev1.DeviceToleration) field.ErrorList {
		errs := allows(p.Child("key"), &t.Key, nil, validate.LabelKey[string])
		errs = append(errs, requires(p.Child("operator"), &t.Operator, nil, oneOf(operators()))...)
		return append(errs, allows(p.Child("effect"), &t.Effect, nil, oneOf(effects()))...)
	}}, p, all, old)
}

// taint has the declarations of a taint; old is nil if there was none.
func (d declarations) taint(t, old *resourcev1.DeviceTaint, p *field.Path) field.ErrorList {
	if old == nil {
		return requires(p.Child("effect"), &t.Effect, nil, oneOf(effects()))
	}
	return requires(p.Child("effect"), &t.Effect, &old.Effect, oneOf(effects()))
}

// status has the declarations of a claim's status.
func (d declarations) status(s, old *resourcev1.ResourceClaimStatus, p *field.Path) field.ErrorList {
	var errs field.ErrorList
	if a := s.Allocation; a != nil && !equality.Semantic.DeepEqual(a, old.Allocation) {
		if at := p.Child("allocation"); old.Allocation != nil {
			errs = append(errs, field.Invalid(at, nil, "field cannot be modified once set").WithOrigin("update"))
		} else {
			errs = append(errs, d.allocation(&a.Devices, at.Child("devices"))...)
		}
	}
	errs = append(errs, list(items[resourcev1.ResourceClaimConsumerReference]{
		most: resourcev1.ResourceClaimReservedForMaxSize,
		same: func(a, b resourcev1.ResourceClaimConsumerReference) bool { return a.UID == b.UID },
	}, p.Child("reservedFor"), s.ReservedFor, old.ReservedFor)...)
	return append(errs, list(items[resourcev1.AllocatedDeviceStatus]{
		same: func(a, b resourcev1.AllocatedDeviceStatus) bool {
			return a.Driver == b.Driver && a.Device == b.Device && a.Pool == b.Pool &&
				(a.ShareID == nil) == (b.ShareID == nil) && (a.ShareID == nil || *a.ShareID == *b.ShareID)
		},
		rule: d.device,
	}, p.Child("devices"), s.Devices, old.Devices)...)
}

func (d declarations) device(p *field.Path, s, old *resourcev1.AllocatedDeviceStatus) field.ErrorList {
	var errs field.ErrorList
	if old == nil {
		old = &resourcev1.AllocatedDeviceStatus{}
	}
	if s.ShareID != nil {
		errs = append(errs, apply(validate.UUID[string], p.Child("shareID"), s.ShareID, old.ShareID)...)
	}
	n, before := s.NetworkData, old.NetworkData
	if n == nil {
		return errs
	}
	if before == nil {
		before = &resourcev1.NetworkDeviceData{}
	}
	p = p.Child("networkData")
	errs = append(errs, allows(p.Child("interfaceName"), &n.InterfaceName, &before.InterfaceName, maxBytes(resourcev1.NetworkDeviceDataInterfaceNameMaxLength))...)
	errs = append(errs, list(items[string]{most: resourcev1.NetworkDeviceDataMaxIPs, same: sameString}, p.Child("ips"), n.IPs, before.IPs)...)
	return append(errs, allows(p.Child("hardwareAddress"), &n.HardwareAddress, &before.HardwareAddress, maxBytes(resourcev1.NetworkDeviceDataHardwareAddressMaxLength))...)
}

// allocation is about one that is new.
func (d declarations) allocation(a *resourcev1.DeviceAllocationResult, p *field.Path) field.ErrorList {
	errs := list(items[resourcev1.DeviceRequestAllocationResult]{
		most: resourcev1.AllocationResultsMaxSize,
		rule: func(p *field.Path, r, _ *resourcev1.DeviceRequestAllocationResult) field.ErrorList {
			errs := d.driver(&r.Driver, p.Child("driver"))
			errs = append(errs, requires(p.Child("pool"), &r.Pool, nil, validate.ResourcePoolName[string])...)
			errs = append(errs, d.tolerations(r.Tolerations, nil, p.Child("tolerations"))...)
			errs = append(errs, d.conditions(r.BindingConditions, r.BindingFailureConditions, p)...)
			if r.ShareID != nil {
				errs = append(errs, apply(validate.UUID[types.UID], p.Child("shareID"), r.ShareID, nil)...)
			}
			return errs
		},
	}, p.Child("results"), a.Results, nil)
	return append(errs, list(items[resourcev1.DeviceAllocationConfiguration]{
		most: 2 * maxConfigs,
		rule: func(p *field.Path, c, _ *resourcev1.DeviceAllocationConfiguration) field.ErrorList {
			errs := requires(p.Child("source"), &c.Source, nil, oneOf(sources()))
			errs = append(errs, d.names(c.Requests, p.Child("requests"))...)
			return append(errs, d.configuration(&c.DeviceConfiguration, p)...)
		},
	}, p.Child("config"), a.Config, nil)...)
}

func (d declarations) conditions(good, bad []string, p *field.Path) field.ErrorList {
	errs := list(items[string]{most: resourcev1.BindingConditionsMaxSize}, p.Child("bindingConditions"), good, nil)
	return append(errs, list(items[string]{most: resourcev1.BindingFailureConditionsMaxSize}, p.Child("bindingFailureConditions"), bad, nil)...)
}

// slice has the declarations of slices; old is nil in a create. Devices have no names for it.
func (d declarations) slice(s, old *resourcev1.ResourceSliceSpec, p *field.Path) field.ErrorList {
	if old == nil {
		old = &resourcev1.ResourceSliceSpec{}
	}
	errs := list(items[resourcev1.Device]{rule: func(p *field.Path, device, _ *resourcev1.Device) field.ErrorList {
		return d.deviceOf(device, p)
	}}, p.Child("devices"), s.Devices, old.Devices)
	return append(errs, list(items[resourcev1.CounterSet]{
		most: resourcev1.ResourceSliceMaxCounterSets,
		same: func(a, b resourcev1.CounterSet) bool { return a.Name == b.Name },
		rule: func(p *field.Path, c, before *resourcev1.CounterSet) field.ErrorList {
			if before == nil {
				return d.counters(&c.Name, p.Child("name"), c.Counters, nil, p.Child("counters"))
			}
			return d.counters(&c.Name, nil, c.Counters, before.Counters, p.Child("counters"))
		},
	}, p.Child("sharedCounters"), s.SharedCounters, old.SharedCounters)...)
}

func (d declarations) deviceOf(device *resourcev1.Device, p *field.Path) field.ErrorList {
	var errs field.ErrorList
	for name, a := range device.Attributes {
		errs = append(errs, d.attribute(&a, p.Child("attributes").Key(string(name)))...)
	}
	errs = append(errs, list(items[resourcev1.DeviceCounterConsumption]{
		most: resourcev1.ResourceSliceMaxDeviceCounterConsumptionsPerDevice,
		same: func(a, b resourcev1.DeviceCounterConsumption) bool { return a.CounterSet == b.CounterSet },
		rule: func(p *field.Path, c, _ *resourcev1.DeviceCounterConsumption) field.ErrorList {
			return d.counters(&c.CounterSet, p.Child("counterSet"), c.Counters, nil, p.Child("counters"))
		},
	}, p.Child("consumesCounters"), device.ConsumesCounters, nil)...)
	errs = append(errs, list(items[resourcev1.DeviceTaint]{rule: func(p *field.Path, t, _ *resourcev1.DeviceTaint) field.ErrorList {
		return d.taint(t, nil, p)
	}}, p.Child("taints"), device.Taints, nil)...)
	return append(errs, d.conditions(device.BindingConditions, device.BindingFailureConditions, p)...)
}

// counters are those of a name, or of one that is known if at is nil.
func (d declarations) counters(name *string, at *field.Path, counters, old map[string]resourcev1.Counter, p *field.Path) field.ErrorList {
	var errs field.ErrorList
	if at != nil {
		errs = requires(at, name, nil, validate.ShortName[string])
	}
	if old != nil && equality.Semantic.DeepEqual(counters, old) {
		return errs
	}
	if len(counters) == 0 {
		return append(errs, field.Required(p, ""))
	}
	return append(errs, validate.EachMapKey(context.Background(), anyOperation(), p, counters, old, validate.ShortName[string])...)
}

func (d declarations) attribute(a *resourcev1.DeviceAttribute, p *field.Path) field.ErrorList {
	const all = "`int`, `bool`, `string`, `version`, `ints`, `bools`, `strings`, `versions`"
	set := valuesOf(a, 1)
	switch len(set) {
	case 0:
		return field.ErrorList{field.Invalid(p, "", "must specify one of: "+all).WithOrigin("union")}
	case 1:
		return nil
	}
	return field.ErrorList{field.Invalid(p, "{"+strings.Join(set, ", ")+"}", "must specify exactly one of: "+all).WithOrigin("union")}
}
