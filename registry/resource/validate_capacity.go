package resource

import (
	"fmt"
	"math"

	"gopkg.in/inf.v0"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxValues is how many amounts a policy may list.
const maxValues = 10

// validateCapacity validates what requests may take of a capacity, which must be shared for that.
func validateCapacity(c *resourcev1.DeviceCapacity, shared bool, p *field.Path) field.ErrorList {
	policy := c.RequestPolicy
	if policy == nil {
		return nil
	}
	p = p.Child("requestPolicy")
	values, within := len(policy.ValidValues) > 0, policy.ValidRange != nil
	switch {
	case !shared:
		return field.ErrorList{field.Forbidden(p, "allowMultipleAllocations must be true")}
	case values && within:
		return field.ErrorList{field.Forbidden(p, `exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time`)}
	case values && policy.Default == nil:
		return field.ErrorList{field.Required(p.Child("default"), "required when validValues is defined")}
	case within && policy.Default == nil:
		return field.ErrorList{field.Required(p.Child("default"), "required when validRange is defined")}
	case values:
		return validateValues(policy, c.Value, p.Child("validValues"))
	case within:
		return amounts{policy.ValidRange, *policy.Default, c.Value}.validate(p.Child("validRange"))
	}
	return nil
}

func validateValues(policy *resourcev1.CapacityRequestPolicy, capacity resource.Quantity, p *field.Path) field.ErrorList {
	var errs field.ErrorList
	list := policy.ValidValues
	for i := 1; i < len(list); i++ {
		if list[i-1].Cmp(list[i]) > 0 {
			errs = append(errs, field.Invalid(p.Index(i), list[i].String(), "values must be sorted in ascending order"))
		}
	}
	found := false
	errs = append(errs, validateSet(list, maxValues, func(q resource.Quantity, p *field.Path) field.ErrorList {
		found = found || q.Cmp(*policy.Default) == 0
		if q.Cmp(capacity) > 0 {
			return field.ErrorList{field.Invalid(p, q.String(), "option is larger than capacity value: "+capacity.String())}
		}
		return nil
	}, func(q resource.Quantity) string { return q.AsDec().String() }, p)...)
	if !found {
		errs = append(errs, field.Invalid(p, policy.Default.String(), "default value is not valid according to the requestPolicy"))
	}
	return errs
}

// amounts are a range, in steps, of what requests may take, what they take by default, and what there is.
type amounts struct {
	of                *resourcev1.CapacityRequestPolicyRange
	standard, present resource.Quantity
}

func (a amounts) validate(p *field.Path) field.ErrorList {
	if a.of.Min == nil {
		return field.ErrorList{field.Required(p.Child("min"), "required when validRange is defined")}
	}
	errs := a.validateBounds(p)
	thousandths := false
	for _, q := range a.named() {
		thousandths = thousandths || fractional(q.value)
	}
	if thousandths {
		if inexact := a.refuse(p, func(q *resource.Quantity) string {
			if q.Cmp(*resource.NewMilliQuantity(q.MilliValue(), q.Format)) != 0 {
				return "value cannot be represented as a milli value"
			}
			return ""
		}); len(inexact) > 0 {
			return append(errs, inexact...)
		}
	}
	if a.of.Step == nil {
		return errs
	}
	return append(errs, a.validateSteps(thousandths, p)...)
}

func (a amounts) validateBounds(p *field.Path) field.ErrorList {
	var errs field.ErrorList
	least, most := a.of.Min, a.of.Max
	if least.Cmp(a.present) > 0 {
		errs = append(errs, field.Invalid(p.Child("min"), least.String(), "min is larger than capacity value: "+a.present.String()))
	}
	if a.standard.Cmp(*least) < 0 {
		errs = append(errs, field.Invalid(p.Child("default"), a.standard.String(), "default is less than min: "+least.String()))
	}
	if most == nil {
		return errs
	}
	if least.Cmp(*most) > 0 {
		errs = append(errs, field.Invalid(p.Child("max"), least.String(), "min is larger than max: "+most.String()))
	}
	if most.Cmp(a.present) > 0 {
		errs = append(errs, field.Invalid(p.Child("max"), most.String(), "max is larger than capacity value: "+a.present.String()))
	}
	if a.standard.Cmp(*most) > 0 {
		errs = append(errs, field.Invalid(p.Child("default"), a.standard.String(), "default is more than max: "+most.String()))
	}
	return errs
}

func (a amounts) validateSteps(thousandths bool, p *field.Path) field.ErrorList {
	step, at := a.of.Step, p.Child("step")
	if step.Sign() <= 0 {
		return field.ErrorList{field.Invalid(at, step.String(), "must be greater than zero")}
	}
	var errs field.ErrorList
	one := a.of.Min.DeepCopy()
	one.Add(*step)
	if one.Cmp(a.present) > 0 {
		errs = append(errs, field.Invalid(at, step.String(), fmt.Sprintf("one step %s is larger than capacity value: %s", one.String(), a.present.String())))
	}
	if !thousandths {
		if outside := a.refuse(p, outsideInt64); len(outside) > 0 {
			return append(errs, outside...)
		}
	}
	for _, q := range []*resource.Quantity{&a.standard, a.of.Max} {
		if q != nil && (whole(q, thousandths)-whole(a.of.Min, thousandths))%whole(step, thousandths) != 0 {
			errs = append(errs, field.Invalid(at, q.String(), fmt.Sprintf("value is not a multiple of a given step (%s) from (%s)", step.String(), a.of.Min.String())))
		}
	}
	return errs
}

// namedAmount is an amount under the name of its field.
type namedAmount struct {
	name  string
	value *resource.Quantity
}

// named returns the amounts that are set.
func (a amounts) named() []namedAmount {
	var set []namedAmount
	for _, q := range []namedAmount{{"default", &a.standard}, {"min", a.of.Min}, {"max", a.of.Max}, {"step", a.of.Step}} {
		if q.value != nil {
			set = append(set, q)
		}
	}
	return set
}

// refuse returns an error for each amount that something is wrong with.
func (a amounts) refuse(p *field.Path, wrong func(*resource.Quantity) string) field.ErrorList {
	var errs field.ErrorList
	for _, q := range a.named() {
		if reason := wrong(q.value); reason != "" {
			errs = append(errs, field.Invalid(p.Child(q.name), q.value.String(), reason))
		}
	}
	return errs
}

func outsideInt64(q *resource.Quantity) string {
	switch {
	case q.Sign() < 0:
		return apivalidation.IsNegativeErrorMsg
	case q.CmpInt64(math.MaxInt64) > 0:
		return fmt.Sprintf("must not be larger than %d", math.MaxInt64)
	}
	return ""
}

// whole returns a number of units, or of thousandths.
func whole(q *resource.Quantity, thousandths bool) int64 {
	if thousandths {
		return q.MilliValue()
	}
	return q.Value()
}

// fractional reports whether an amount is not a number of units.
func fractional(q *resource.Quantity) bool {
	c := q.DeepCopy() // AsDec changes how an amount is kept
	exact := c.AsDec()
	return exact.Cmp(new(inf.Dec).Round(exact, 0, inf.RoundDown)) != 0
}
