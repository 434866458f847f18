package resource

import (
	"github.com/google/uuid"
	resourcev1 "k8s.io/api/resource/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"strings"

	"github.com/keelson-dev/keelson/podspec"
	"github.com/keelson-dev/keelson/registry/internal/check"
)

func validateClaimStatus(c, old claim) field.ErrorList {
	p := field.NewPath("status")
	s, before := &c.Status, &old.Status
	reserved, devices, allocation := p.Child("reservedFor"), p.Child("devices"), p.Child("allocation")
	errs := covered(validateSet(s.ReservedFor, resourcev1.ResourceClaimReservedForMaxSize, validateConsumer,
		func(r resourcev1.ResourceClaimConsumerReference) types.UID { return r.UID }, reserved))
	of := allocated(s)
	errs = append(errs, covered(validateSet(s.Devices, 0, func(d resourcev1.AllocatedDeviceStatus, p *field.Path) field.ErrorList {
		return validateDeviceStatus(&d, of, p)
	}, func(d resourcev1.AllocatedDeviceStatus) deviceID { return idOf(&d) }, devices))...)
	if len(s.ReservedFor) > 0 {
		switch {
		case s.Allocation == nil:
			errs = append(errs, field.Forbidden(reserved, "may not be specified when `allocated` is not set"))
		case c.DeletionTimestamp != nil && adds(s.ReservedFor, before.ReservedFor):
			errs = append(errs, field.Forbidden(reserved, "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"))
		}
	}
	if s.Allocation != nil && before.Allocation == nil {
		errs = append(errs, validateAllocation(s.Allocation, namesOf(&c.Spec.Devices), allocation)...)
	}
	return check.Declared(errs, declarations{}.status(s, before, p))
}

func adds(now, before []resourcev1.ResourceClaimConsumerReference) bool {
	known := map[resourcev1.ResourceClaimConsumerReference]bool{}
	for _, r := range before {
		known[r] = true
	}
	for _, r := range now {
		if !known[r] {
			return true
		}
	}
	return false
}

func validateConsumer(r resourcev1.ResourceClaimConsumerReference, p *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, f := range []struct{ name, value string }{{"resource", r.Resource}, {"name", r.Name}, {"uid", string(r.UID)}} {
		if f.value == "" {
			errs = append(errs, field.Required(p.Child(f.name), ""))
		}
	}
	return errs
}

func validateAllocation(a *resourcev1.AllocationResult, names requestNames, p *field.Path) field.ErrorList {
	results, config, nodes := p.Child("devices", "results"), p.Child("devices", "config"), p.Child("nodeSelector")
	errs := covered(validateItems(a.Devices.Results, resourcev1.AllocationResultsMaxSize, names.validateResult, results))
	errs = append(errs, covered(validateItems(a.Devices.Config, 2*maxConfigs, names.validateAllocatedConfig, config))...)
	if a.NodeSelector != nil {
		errs = append(errs, podspec.ValidateNodeSelector(a.NodeSelector, nodes)...)
	}
	return errs
}

func (n requestNames) validateAllocatedConfig(c resourcev1.DeviceAllocationConfiguration, p *field.Path) field.ErrorList {
	errs := check.RequiredOneOf(p.Child("source"), c.Source, sources()...).MarkCoveredByDeclarative()
	errs = append(errs, n.validateRefs(c.Requests, p.Child("requests"))...)
	return append(errs, validateConfiguration(c.DeviceConfiguration, p, false)...)
}

func sources() []resourcev1.AllocationConfigSource {
	return []resourcev1.AllocationConfigSource{resourcev1.AllocationConfigSourceClaim, resourcev1.AllocationConfigSourceClass}
}

// validateResult leaves to the declarations what they say of every new result.
func (n requestNames) validateResult(r resourcev1.DeviceRequestAllocationResult, p *field.Path) field.ErrorList {
	errs := n.validateRef(r.Request, p.Child("request"))
	errs = append(errs, validateLabel(r.Device, p.Child("device"))...)
	errs = append(errs, validateBinding(r.BindingConditions, r.BindingFailureConditions, p)...)
	return append(errs, validateTolerations(r.Tolerations, p.Child("tolerations"))...)
}

// validateUUID requires a UUID in lower case.
func validateUUID(uid string, p *field.Path) field.ErrorList {
	var errs field.ErrorList
	if err := uuid.Validate(uid); err != nil {
		errs = append(errs, field.Invalid(p, uid, "error validating uid: "+err.Error()))
	} else if len(uid) != len("00000000-0000-0000-0000-000000000000") || uid != strings.ToLower(uid) {
		errs = append(errs, field.Invalid(p, uid, "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal characters"))
	}
	return errs.WithOrigin(uuidFormat)
}

// validateBinding validates the conditions that a pod's binding waits for, and those that end the wait.
func validateBinding(conditions, failures []string, p *field.Path) field.ErrorList {
	good, bad := p.Child("bindingConditions"), p.Child("bindingFailureConditions")
	errs := covered(validateItems(conditions, resourcev1.BindingConditionsMaxSize, metavalidation.ValidateLabelName, good))
	errs = append(errs, covered(validateItems(failures, resourcev1.BindingFailureConditionsMaxSize, metavalidation.ValidateLabelName, bad))...)
	none := func(string, *field.Path) field.ErrorList { return nil }
	errs = append(errs, validateSet(conditions, 0, none, itself, good)...)
	wanted, seen := map[string]bool{}, map[string]bool{}
	for _, c := range conditions {
		wanted[c] = true
	}
	for i, f := range failures {
		if seen[f] {
			errs = append(errs, field.Duplicate(bad.Index(i), f))
		}
		seen[f] = true
		if wanted[f] {
			errs = append(errs, field.Invalid(bad.Index(i), f, "bindingFailureConditions must not overlap with bindingConditions"))
		}
	}
	switch {
	case len(conditions) == 0 && len(failures) > 0:
		errs = append(errs, field.Invalid(good, conditions, "bindingConditions are required to use bindingFailureConditions"))
	case len(failures) == 0 && len(conditions) > 0:
		errs = append(errs, field.Invalid(bad, failures, "bindingFailureConditions are required to use bindingConditions"))
	}
	return errs
}

func validateDeviceStatus(d *resourcev1.AllocatedDeviceStatus, of map[deviceID]bool, p *field.Path) field.ErrorList {
	errs := validateDriver(d.Driver, p.Child("driver"))
	errs = append(errs, validatePool(d.Pool, p.Child("pool"))...)
	errs = append(errs, validateLabel(d.Device, p.Child("device"))...)
	if d.ShareID != nil {
		errs = append(errs, validateUUID(*d.ShareID, p.Child("shareID")).MarkCoveredByDeclarative()...)
	}
	if id := idOf(d); !of[id] {
		errs = append(errs, field.Invalid(p, id, "must be an allocated device in the claim"))
	}
	conditions := p.Child("conditions")
	if n := len(d.Conditions); n > resourcev1.AllocatedDeviceStatusMaxConditions {
		errs = append(errs, field.TooMany(conditions, n, resourcev1.AllocatedDeviceStatusMaxConditions))
	}
	errs = append(errs, metavalidation.ValidateConditions(d.Conditions, conditions)...)
	if d.Data != nil && len(d.Data.Raw) > 0 {
		errs = append(errs, validateJSON(*d.Data, resourcev1.AllocatedDeviceStatusDataMaxLength, p.Child("data"))...)
	}
	if d.NetworkData != nil {
		errs = append(errs, validateNetwork(d.NetworkData, p.Child("networkData"))...)
	}
	return errs
}

func validateNetwork(n *resourcev1.NetworkDeviceData, p *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(n.InterfaceName) > resourcev1.NetworkDeviceDataInterfaceNameMaxLength {
		errs = append(errs, field.TooLong(p.Child("interfaceName"), "", resourcev1.NetworkDeviceDataInterfaceNameMaxLength).
			WithOrigin("maxBytes").MarkCoveredByDeclarative())
	}
	if len(n.HardwareAddress) > resourcev1.NetworkDeviceDataHardwareAddressMaxLength {
		errs = append(errs, field.TooLong(p.Child("hardwareAddress"), "", resourcev1.NetworkDeviceDataHardwareAddressMaxLength).
			WithOrigin("maxBytes").MarkCoveredByDeclarative())
	}
	ips := p.Child("ips")
	return append(errs, covered(validateSet(n.IPs, resourcev1.NetworkDeviceDataMaxIPs, func(ip string, p *field.Path) field.ErrorList {
		return validation.IsValidInterfaceAddress(p, ip)
	}, itself, ips))...)
}
