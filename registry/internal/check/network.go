package check

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"
)

// IP requires an unambiguous address; values that the object held before stay valid (KEP-4858).
func IP(path *field.Path, value string, before []string) field.ErrorList {
	return validation.IsValidIPForLegacyField(path, value, true, before)
}

// CIDR requires an unambiguous network; values that the object held before stay valid (KEP-4858).
func CIDR(path *field.Path, value string, before []string) field.ErrorList {
	return validation.IsValidCIDRForLegacyField(path, value, true, before)
}

// EndpointIP requires an address that is reachable beyond its own host.
func EndpointIP(path *field.Path, value string) field.ErrorList {
	ip := netutils.ParseIPSloppy(value)
	if ip == nil {
		return field.ErrorList{field.Invalid(path, value, "must be a valid IP address")}
	}
	var errs field.ErrorList
	refuse := func(is bool, message string) {
		if is {
			errs = append(errs, field.Invalid(path, value, message))
		}
	}
	refuse(ip.IsUnspecified(), fmt.Sprintf("may not be unspecified (%v)", value))
	refuse(ip.IsLoopback(), "may not be in the loopback range (127.0.0.0/8, ::1/128)")
	refuse(ip.IsLinkLocalUnicast(), "may not be in the link-local range (169.254.0.0/16, fe80::/10)")
	refuse(ip.IsLinkLocalMulticast(), "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")
	return errs
}

// Protocol requires a transport protocol.
func Protocol(path *field.Path, value corev1.Protocol) field.ErrorList {
	return RequiredOneOf(path, value, corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP)
}

// PortNumberOrName requires a port's number or its name.
func PortNumberOrName(path *field.Path, value intstr.IntOrString) field.ErrorList {
	switch value.Type {
	case intstr.Int:
		return Messages(path, value.IntValue(), validation.IsValidPortNum(value.IntValue()))
	case intstr.String:
		return Messages(path, value.StrVal, validation.IsValidPortName(value.StrVal))
	}
	return field.ErrorList{field.InternalError(path, fmt.Errorf("unknown type: %v", value.Type))}
}
