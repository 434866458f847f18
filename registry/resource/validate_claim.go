package resource

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	maxRequests = resourcev1.DeviceRequestsMaxSize
	maxSubs     = resourcev1.FirstAvailableDeviceRequestMaxSize
	maxConfigs  = resourcev1.DeviceConfigMaxSize
)

// validateSpec validates the spec of a new claim, or of a template.
func (r rules) validateSpec(s *resourcev1.ResourceClaimSpec, p *field.Path) field.ErrorList {
	d, p := &s.Devices, p.Child("devices")
	names := namesOf(d)
	requests, constraints, config := p.Child("requests"), p.Child("constraints"), p.Child("config")
	errs := covered(validateSet(d.Requests, maxRequests, r.validateRequest,
		func(r resourcev1.DeviceRequest) string { return r.Name }, requests))
	errs = append(errs, covered(validateItems(d.Constraints, resourcev1.DeviceConstraintsMaxSize, names.validateConstraint, constraints))...)
	return append(errs, covered(validateItems(d.Config, maxConfigs, func(c resourcev1.DeviceClaimConfiguration, p *field.Path) field.ErrorList {
		errs := names.validateRefs(c.Requests, p.Child("requests"))
		return append(errs, validateConfiguration(c.DeviceConfiguration, p, false)...)
	}, config))...)
}

func (r rules) validateRequest(q resourcev1.DeviceRequest, p *field.Path) field.ErrorList {
	errs := validateLabel(q.Name, p.Child("name"))
	subs := p.Child("firstAvailable")
	switch {
	case q.Exactly == nil && len(q.FirstAvailable) == 0:
		return append(errs, field.Required(p, "exactly one of `exactly` or `firstAvailable` is required"))
	case q.Exactly != nil && len(q.FirstAvailable) > 0:
		return append(errs, field.Invalid(p, nil, "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set"))
	case q.Exactly == nil:
		return append(errs, covered(validateSet(q.FirstAvailable, maxSubs, r.validateSub,
			func(s resourcev1.DeviceSubRequest) string { return s.Name }, subs))...)
	}
	e, p := q.Exactly, p.Child("exactly")
	errs = append(errs, validateClassName(e.DeviceClassName, p.Child("deviceClassName"))...)
	errs = append(errs, r.selectors(e.Selectors, p.Child("selectors"))...)
	errs = append(errs, validateCount(e.AllocationMode, e.Count, p)...)
	return append(errs, validateTolerations(e.Tolerations, p.Child("tolerations"))...)
}

func (r rules) validateSub(s resourcev1.DeviceSubRequest, p *field.Path) field.ErrorList {
	errs := validateLabel(s.Name, p.Child("name"))
	errs = append(errs, validateClassName(s.DeviceClassName, p.Child("deviceClassName")).MarkCoveredByDeclarative()...)
	errs = append(errs, r.selectors(s.Selectors, p.Child("selectors"))...)
	errs = append(errs, validateCount(s.AllocationMode, s.Count, p)...)
	return append(errs, validateTolerations(s.Tolerations, p.Child("tolerations"))...)
}

func validateTolerations(list []resourcev1.DeviceToleration, p *field.Path) field.ErrorList {
	return validateItems(list, 0, func(t resourcev1.DeviceToleration, p *field.Path) field.ErrorList {
		return validateToleration(&t, p)
	}, p)
}

func validateCount(mode resourcev1.DeviceAllocationMode, count int64, p *field.Path) field.ErrorList {
	at := p.Child("count")
	switch mode {
	case resourcev1.DeviceAllocationModeAll:
		if count != 0 {
			return field.ErrorList{field.Invalid(at, count, fmt.Sprintf("must not be specified when allocationMode is '%s'", mode))}
		}
	case resourcev1.DeviceAllocationModeExactCount:
		if count <= 0 {
			return field.ErrorList{field.Invalid(at, count, "must be greater than zero")}
		}
	default:
		return field.ErrorList{field.NotSupported(p.Child("allocationMode"), mode, modes()).MarkCoveredByDeclarative()}
	}
	return nil
}

func modes() []resourcev1.DeviceAllocationMode {
	return []resourcev1.DeviceAllocationMode{resourcev1.DeviceAllocationModeAll, resourcev1.DeviceAllocationModeExactCount}
}

// selectors validates new selectors.
func (r rules) selectors(list []resourcev1.DeviceSelector, p *field.Path) field.ErrorList {
	return validateSelectors(list, p, r.validateExpression)
}

// storedSelectors validates selectors whose expressions have been valid.
func storedSelectors(list []resourcev1.DeviceSelector, p *field.Path) field.ErrorList {
	return validateSelectors(list, p, func(string, *field.Path) field.ErrorList { return nil })
}

func validateSelectors(list []resourcev1.DeviceSelector, p *field.Path, expression func(string, *field.Path) field.ErrorList) field.ErrorList {
	return covered(validateItems(list, resourcev1.DeviceSelectorsMaxSize, func(s resourcev1.DeviceSelector, p *field.Path) field.ErrorList {
		if s.CEL == nil {
			return field.ErrorList{field.Required(p.Child("cel"), "")}
		}
		return expression(s.CEL.Expression, p.Child("cel", "expression"))
	}, p))
}

func (r rules) validateExpression(text string, p *field.Path) field.ErrorList {
	switch {
	case len(text) > resourcev1.CELSelectorExpressionMaxLength:
		return field.ErrorList{field.TooLong(p, "", resourcev1.CELSelectorExpressionMaxLength)}
	case r.compile == nil:
		return field.ErrorList{field.Forbidden(p, "this server does not have a compiler of CEL expressions")}
	}
	cost, err := r.compile(text)
	var own *field.Error
	switch {
	case errors.As(err, &own) && own.Type == field.ErrorTypeInternal:
		return field.ErrorList{field.InternalError(p, errors.New(own.Detail))}
	case err != nil:
		return field.ErrorList{field.Invalid(p, text, err.Error())}
	case cost > resourcev1.CELSelectorExpressionMaxCost:
		return field.ErrorList{field.Forbidden(p, "too complex, exceeds cost limit")}
	}
	return nil
}

// requestNames are the names of the requests of a claim, and those of their alternatives.
type requestNames map[string]map[string]bool

func namesOf(d *resourcev1.DeviceClaim) requestNames {
	names := requestNames{}
	for i := range d.Requests {
		subs := map[string]bool{}
		for j := range d.Requests[i].FirstAvailable {
			subs[d.Requests[i].FirstAvailable[j].Name] = true
		}
		names[d.Requests[i].Name] = subs
	}
	return names
}

const noRequest = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"

func (n requestNames) validateRef(name string, p *field.Path) field.ErrorList {
	if strings.Count(name, "/") > 1 {
		return field.ErrorList{field.Invalid(p, name, noRequest)}
	}
	request, sub, both := strings.Cut(name, "/")
	errs := validateLabel(request, p)
	if both {
		errs = append(errs, validateLabel(sub, p)...)
	}
	if subs, ok := n[request]; !ok || both && !subs[sub] {
		errs = append(errs, field.Invalid(p, name, noRequest))
	}
	return errs
}

func (n requestNames) validateRefs(list []string, p *field.Path) field.ErrorList {
	return covered(validateSet(list, maxRequests, n.validateRef, itself, p))
}

func (n requestNames) validateConstraint(c resourcev1.DeviceConstraint, p *field.Path) field.ErrorList {
	errs := n.validateRefs(c.Requests, p.Child("requests"))
	switch {
	case c.MatchAttribute != nil:
		return append(errs, validateFullyQualified(*c.MatchAttribute, p.Child("matchAttribute")).MarkCoveredByDeclarative()...)
	case c.DistinctAttribute != nil:
		return append(errs, validateFullyQualified(*c.DistinctAttribute, p.Child("distinctAttribute")).MarkCoveredByDeclarative()...)
	}
	return append(errs, field.Required(p, `exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set`))
}

// validateConfiguration validates parameters of a driver. What is stored may be larger than what is new.
func validateConfiguration(c resourcev1.DeviceConfiguration, p *field.Path, stored bool) field.ErrorList {
	p = p.Child("opaque")
	if c.Opaque == nil {
		return field.ErrorList{field.Required(p, "")}
	}
	most := resourcev1.OpaqueParametersMaxLength
	if stored {
		most = len(c.Opaque.Parameters.Raw)
	}
	errs := declaredDriver(c.Opaque.Driver, p.Child("driver"))
	return append(errs, validateJSON(c.Opaque.Parameters, most, p.Child("parameters"))...)
}

// validateJSON requires a JSON object of at most so many bytes.
func validateJSON(data runtime.RawExtension, most int, p *field.Path) field.ErrorList {
	switch n := len(data.Raw); {
	case n == 0:
		return field.ErrorList{field.Required(p, "")}
	case n > most:
		return field.ErrorList{field.TooLong(p, "", most)}
	}
	var v any
	if err := json.Unmarshal(data.Raw, &v); err != nil {
		return field.ErrorList{field.Invalid(p, "<value omitted>", "error parsing data as JSON: "+err.Error())}
	}
	if v == nil {
		return field.ErrorList{field.Required(p, "")}
	}
	if _, ok := v.(map[string]any); !ok {
		return field.ErrorList{field.Invalid(p, "<value omitted>", "must be a valid JSON object")}
	}
	return nil
}
