package limitranger

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// rule is one resource of an item, and the bound on it.
type rule struct {
	item  *corev1.LimitRangeItem
	name  corev1.ResourceName
	bound resource.Quantity
}

// usage is how much of a resource something requests, and what its limit is.
type usage struct {
	request, limit       resource.Quantity
	hasRequest, hasLimit bool
	// of the two and the bound in a common unit: thousandths, unless they are too large for that.
	requestUnits, limitUnits, boundUnits int64
}

func (r rule) usage(of *corev1.ResourceRequirements) usage {
	var u usage
	u.request, u.hasRequest = of.Requests[r.name]
	u.limit, u.hasLimit = of.Limits[r.name]
	u.requestUnits, u.limitUnits, u.boundUnits = u.request.Value(), u.limit.Value(), r.bound.Value()
	if max(u.requestUnits, u.limitUnits, u.boundUnits) <= resource.MaxMilliValue {
		u.requestUnits, u.limitUnits, u.boundUnits = u.request.MilliValue(), u.limit.MilliValue(), r.bound.MilliValue()
	}
	return u
}

func (r rule) atLeast(of *corev1.ResourceRequirements) error {
	u := r.usage(of)
	switch minimum := fmt.Sprintf("minimum %s usage per %s is %s", r.name, r.item.Type, r.bound.String()); {
	case !u.hasRequest:
		return fmt.Errorf("%s.  No request is specified", minimum)
	case u.requestUnits < u.boundUnits:
		return fmt.Errorf("%s, but request is %s", minimum, u.request.String())
	case u.hasLimit && u.limitUnits < u.boundUnits:
		return fmt.Errorf("%s, but limit is %s", minimum, u.limit.String())
	}
	return nil
}

func (r rule) maximum() string {
	return fmt.Sprintf("maximum %s usage per %s is %s", r.name, r.item.Type, r.bound.String())
}

func (r rule) atMost(of *corev1.ResourceRequirements) error {
	switch u := r.usage(of); {
	case !u.hasLimit:
		return fmt.Errorf("%s.  No limit is specified", r.maximum())
	case u.limitUnits > u.boundUnits:
		return fmt.Errorf("%s, but limit is %s", r.maximum(), u.limit.String())
	case u.hasRequest && u.requestUnits > u.boundUnits:
		return fmt.Errorf("%s, but request is %s", r.maximum(), u.request.String())
	}
	return nil
}

// requestsAtMost is atMost for what has no limits.
func (r rule) requestsAtMost(of *corev1.ResourceRequirements) error {
	switch u := r.usage(of); {
	case !u.hasRequest:
		return fmt.Errorf("%s.  No request is specified", r.maximum())
	case u.requestUnits > u.boundUnits:
		return fmt.Errorf("%s, but request is %s", r.maximum(), u.request.String())
	}
	return nil
}

func (r rule) withinRatio(of *corev1.ResourceRequirements) error {
	u := r.usage(of)
	most := fmt.Sprintf("%s max limit to request ratio per %s is %s", r.name, r.item.Type, r.bound.String())
	switch {
	case u.requestUnits == 0:
		return fmt.Errorf("%s, but no request is specified or request is 0", most)
	case u.limitUnits == 0:
		return fmt.Errorf("%s, but no limit is specified or limit is 0", most)
	}
	ratio := float64(u.limitUnits) / float64(u.requestUnits)
	bound, scaled := float64(r.bound.Value()), ratio
	if r.bound.Value() <= resource.MaxMilliValue {
		bound, scaled = float64(r.bound.MilliValue()), ratio*1000
	}
	if scaled > bound {
		return fmt.Errorf("%s, but provided ratio is %f", most, ratio)
	}
	return nil
}
