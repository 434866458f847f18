package core

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/keelson-dev/keelson/registry/internal/check"
)

const (
	onlyLoadBalancer = "may only be used when `type` is 'LoadBalancer'"
	mayNotChange     = "may not change once set"
	maxAffinity      = 86400 // seconds
)

// validate validates a service; old is the stored object of an update, or nil.
func (f families) validate(svc, old *corev1.Service) field.ErrorList {
	spec, path := &svc.Spec, field.NewPath("spec")
	errs := validateTopologyMode(svc.Annotations)
	errs = append(errs, validateServiceType(svc, path)...)
	names := map[string]bool{}
	for i := range spec.Ports {
		errs = append(errs, validateServicePort(&spec.Ports[i], len(spec.Ports) > 1, names, path.Child("ports").Index(i))...)
	}
	errs = append(errs, metavalidation.ValidateLabels(spec.Selector, path.Child("selector"))...)
	errs = append(errs, validateAffinity(spec, path)...)
	errs = append(errs, validateClusterIPs(svc, old)...)
	errs = append(errs, f.errors(svc, old)...)
	errs = append(errs, validateExternalIPs(svc, old, path.Child("externalIPs"))...)
	errs = append(errs, check.RequiredOneOf(path.Child("type"), spec.Type, corev1.ServiceTypeClusterIP,
		corev1.ServiceTypeExternalName, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort)...)
	errs = append(errs, validatePortsTogether(spec, path.Child("ports"))...)
	errs = append(errs, validateSourceRanges(svc, old, path.Child("LoadBalancerSourceRanges"))...)
	errs = append(errs, validateLoadBalancer(spec, path)...)
	return append(errs, validateTraffic(svc, path)...)
}

func (f families) validateUpdate(svc, old *corev1.Service) field.ErrorList {
	path := field.NewPath("spec")
	errs := validateClusterIPsChange(svc, old)
	errs = append(errs, validateFamiliesChange(svc, old)...)
	class := path.Child("loadBalancerClass")
	if svc.Spec.Type == corev1.ServiceTypeLoadBalancer && old.Spec.Type == corev1.ServiceTypeLoadBalancer &&
		!equalPointees(svc.Spec.LoadBalancerClass, old.Spec.LoadBalancerClass) {
		errs = append(errs, field.Invalid(class, svc.Spec.LoadBalancerClass, mayNotChange))
	}
	errs = append(errs, validateLoadBalancerClass(&svc.Spec, class)...)
	if hasHealthPort(old) && hasHealthPort(svc) && svc.Spec.HealthCheckNodePort != old.Spec.HealthCheckNodePort {
		errs = append(errs, field.Forbidden(path.Child("healthCheckNodePort"), "field is immutable"))
	}
	return append(errs, f.validate(svc, old)...)
}

func validateTopologyMode(annotations map[string]string) field.ErrorList {
	hints, hinted := annotations[corev1.DeprecatedAnnotationTopologyAwareHints]
	mode, set := annotations[corev1.AnnotationTopologyMode]
	if !hinted || !set || mode == hints {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("metadata", "annotations").Key(corev1.AnnotationTopologyMode), mode,
		fmt.Sprintf("must match annotations[%s] when both are specified", corev1.DeprecatedAnnotationTopologyAwareHints))}
}

// validateServiceType requires the fields that a type needs, and refuses those that it cannot have.
func validateServiceType(svc *corev1.Service, path *field.Path) field.ErrorList {
	spec := &svc.Spec
	var errs field.ErrorList
	if len(spec.Ports) == 0 && !headless(svc) && hasClusterIP(svc) {
		errs = append(errs, field.Required(path.Child("ports"), ""))
	}
	switch {
	case hasNodePorts(svc) && headless(svc):
		errs = append(errs, field.Invalid(path.Child("clusterIPs").Index(0), spec.ClusterIPs[0],
			fmt.Sprintf("may not be set to 'None' for %s services", spec.Type)))
	case spec.Type == corev1.ServiceTypeExternalName:
		forbid := func(name string, set bool) {
			if set {
				errs = append(errs, field.Forbidden(path.Child(name), "may not be set for ExternalName services"))
			}
		}
		forbid("clusterIPs", len(spec.ClusterIPs) > 0)
		forbid("ipFamilies", len(spec.IPFamilies) > 0)
		forbid("ipFamilyPolicy", spec.IPFamilyPolicy != nil)
		if name := strings.TrimSuffix(spec.ExternalName, "."); name != "" {
			errs = append(errs, check.DNSSubdomain(path.Child("externalName"), name)...)
		} else {
			errs = append(errs, field.Required(path.Child("externalName"), ""))
		}
	}
	return errs
}

func validateServicePort(p *corev1.ServicePort, named bool, names map[string]bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if p.Name != "" {
		errs = append(errs, check.DNSLabel(path.Child("name"), p.Name)...)
		if names[p.Name] {
			errs = append(errs, field.Duplicate(path.Child("name"), p.Name))
		}
		names[p.Name] = true
	} else if named {
		errs = append(errs, field.Required(path.Child("name"), ""))
	}
	errs = append(errs, check.PortNumber(path.Child("port"), p.Port)...)
	errs = append(errs, check.Protocol(path.Child("protocol"), p.Protocol)...)
	errs = append(errs, check.PortNumberOrName(path.Child("targetPort"), p.TargetPort)...)
	if p.AppProtocol != nil {
		errs = append(errs, check.QualifiedName(path.Child("appProtocol"), *p.AppProtocol)...)
	}
	return errs
}

func validateAffinity(spec *corev1.ServiceSpec, path *field.Path) field.ErrorList {
	errs := check.RequiredOneOf(path.Child("sessionAffinity"), spec.SessionAffinity,
		corev1.ServiceAffinityClientIP, corev1.ServiceAffinityNone)
	config, path := spec.SessionAffinityConfig, path.Child("sessionAffinityConfig")
	switch spec.SessionAffinity {
	case corev1.ServiceAffinityNone:
		if config != nil {
			errs = append(errs, field.Forbidden(path, "must not be set when session affinity is None"))
		}
	case corev1.ServiceAffinityClientIP:
		const why = "when session affinity type is ClientIP"
		seconds := path.Child("clientIP", "timeoutSeconds")
		switch {
		case config == nil:
			errs = append(errs, field.Required(path, why))
		case config.ClientIP == nil:
			errs = append(errs, field.Required(path.Child("clientIP"), why))
		case config.ClientIP.TimeoutSeconds == nil:
			errs = append(errs, field.Required(seconds, why))
		default:
			if t := *config.ClientIP.TimeoutSeconds; t <= 0 || t > maxAffinity {
				errs = append(errs, field.Invalid(seconds, t, fmt.Sprintf("must be greater than 0 and less than %d", maxAffinity)))
			}
		}
	}
	return errs
}

func validateExternalIPs(svc, old *corev1.Service, path *field.Path) field.ErrorList {
	var before []string
	if old != nil {
		before = old.Spec.ExternalIPs
	}
	var errs field.ErrorList
	for i, ip := range svc.Spec.ExternalIPs {
		if bad := check.IP(path.Index(i), ip, before); len(bad) > 0 {
			errs = append(errs, bad...)
			continue
		}
		errs = append(errs, check.EndpointIP(path.Index(i), ip)...)
	}
	return errs
}

// shownPort is the form of a port in errors.
type shownPort struct {
	Name        string
	Protocol    corev1.Protocol
	AppProtocol *string
	Port        int32
	TargetPort  intstr.IntOrString
	NodePort    int32
}

// validatePortsTogether requires each port, and each node port, to be unique by protocol.
func validatePortsTogether(spec *corev1.ServiceSpec, path *field.Path) field.ErrorList {
	type key struct {
		protocol corev1.Protocol
		port     int32
	}
	var errs, dupNode, dup field.ErrorList
	nodePorts, ports := map[key]bool{}, map[key]bool{}
	for i := range spec.Ports {
		p, path := &spec.Ports[i], path.Index(i)
		if p.NodePort != 0 {
			if spec.Type == corev1.ServiceTypeClusterIP {
				errs = append(errs, field.Forbidden(path.Child("nodePort"), "may not be used when `type` is 'ClusterIP'"))
			}
			k := key{p.Protocol, p.NodePort}
			if nodePorts[k] {
				dupNode = append(dupNode, field.Duplicate(path.Child("nodePort"), p.NodePort))
			}
			nodePorts[k] = true
		}
		k := key{p.Protocol, p.Port}
		if ports[k] {
			dup = append(dup, field.Duplicate(path, shownPort{Protocol: p.Protocol, Port: p.Port}))
		}
		ports[k] = true
	}
	return append(append(errs, dupNode...), dup...)
}

// validateSourceRanges validates who may use a load balancer, given by the field or, without it, by the
// annotation that it replaced.
func validateSourceRanges(svc, old *corev1.Service, path *field.Path) field.ErrorList {
	ranges := svc.Spec.LoadBalancerSourceRanges
	annotation, annotated := svc.Annotations[corev1.AnnotationLoadBalancerSourceRangesKey]
	var errs field.ErrorList
	if len(ranges) == 0 && annotated {
		path = field.NewPath("metadata", "annotations").Key(corev1.AnnotationLoadBalancerSourceRangesKey)
	}
	if (len(ranges) > 0 || annotated) && svc.Spec.Type != corev1.ServiceTypeLoadBalancer {
		errs = append(errs, field.Forbidden(path, onlyLoadBalancer))
	}
	if len(ranges) > 0 {
		var before []string
		if old != nil {
			for _, cidr := range old.Spec.LoadBalancerSourceRanges {
				before = append(before, strings.TrimSpace(cidr))
			}
		}
		for i, cidr := range ranges {
			errs = append(errs, check.CIDR(path.Index(i), strings.TrimSpace(cidr), before)...)
		}
		return errs
	}
	unchanged := old != nil && old.Annotations[corev1.AnnotationLoadBalancerSourceRangesKey] == annotation
	if strings.TrimSpace(annotation) == "" || unchanged {
		return errs
	}
	for cidr := range strings.SplitSeq(strings.TrimSpace(annotation), ",") {
		errs = append(errs, check.CIDR(path, strings.TrimSpace(cidr), nil)...)
	}
	return errs
}

func validateLoadBalancer(spec *corev1.ServiceSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	balanced := spec.Type == corev1.ServiceTypeLoadBalancer
	if spec.AllocateLoadBalancerNodePorts != nil && !balanced {
		errs = append(errs, field.Forbidden(path.Child("allocateLoadBalancerNodePorts"), onlyLoadBalancer))
	}
	if spec.AllocateLoadBalancerNodePorts == nil && balanced {
		errs = append(errs, field.Required(field.NewPath("allocateLoadBalancerNodePorts"), ""))
	}
	return append(errs, validateLoadBalancerClass(spec, path.Child("loadBalancerClass"))...)
}

func validateLoadBalancerClass(spec *corev1.ServiceSpec, path *field.Path) field.ErrorList {
	switch {
	case spec.LoadBalancerClass == nil:
		return nil
	case spec.Type != corev1.ServiceTypeLoadBalancer:
		return field.ErrorList{field.Forbidden(path, onlyLoadBalancer)}
	}
	return check.QualifiedName(path, *spec.LoadBalancerClass)
}

func validateTraffic(svc *corev1.Service, path *field.Path) field.ErrorList {
	spec := &svc.Spec
	var errs field.ErrorList
	external := path.Child("externalTrafficPolicy")
	if reachableFromOutside(svc) {
		errs = append(errs, check.RequiredOneOf(external, spec.ExternalTrafficPolicy,
			corev1.ServiceExternalTrafficPolicyCluster, corev1.ServiceExternalTrafficPolicyLocal)...)
	} else if spec.ExternalTrafficPolicy != "" {
		errs = append(errs, field.Invalid(external, spec.ExternalTrafficPolicy, "may only be set for externally-accessible services"))
	}
	if spec.HealthCheckNodePort != 0 { // without one, it is still to be allocated
		health := path.Child("healthCheckNodePort")
		if hasHealthPort(svc) {
			errs = append(errs, check.PortNumber(health, spec.HealthCheckNodePort)...)
		} else {
			errs = append(errs, field.Invalid(health, spec.HealthCheckNodePort,
				"may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"))
		}
	}
	internal := path.Child("internalTrafficPolicy")
	if policy := spec.InternalTrafficPolicy; policy != nil {
		errs = append(errs, check.OneOf(internal, *policy,
			corev1.ServiceInternalTrafficPolicyCluster, corev1.ServiceInternalTrafficPolicyLocal)...)
	} else if proxied(svc) {
		errs = append(errs, field.Required(internal, ""))
	}
	if d := spec.TrafficDistribution; d != nil {
		errs = append(errs, check.OneOf(path.Child("trafficDistribution"), *d, corev1.ServiceTrafficDistributionPreferClose,
			corev1.ServiceTrafficDistributionPreferSameZone, corev1.ServiceTrafficDistributionPreferSameNode)...)
	}
	return errs
}

func validateServiceStatus(svc, old *corev1.Service) field.ErrorList {
	path := field.NewPath("status", "loadBalancer", "ingress")
	ingress := svc.Status.LoadBalancer.Ingress
	if svc.Spec.Type != corev1.ServiceTypeLoadBalancer && len(ingress) > 0 {
		return field.ErrorList{field.Forbidden(path, "may only be used when `spec.type` is 'LoadBalancer'")}
	}
	var before []string
	for _, in := range old.Status.LoadBalancer.Ingress {
		if in.IP != "" {
			before = append(before, in.IP)
		}
	}
	var errs field.ErrorList
	for i := range ingress {
		errs = append(errs, validateIngress(&ingress[i], before, path.Index(i))...)
	}
	return errs
}

func validateIngress(in *corev1.LoadBalancerIngress, before []string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if in.IP != "" {
		errs = append(errs, check.IP(path.Child("ip"), in.IP, before)...)
	}
	mode := path.Child("ipMode")
	switch {
	case in.IPMode == nil && in.IP != "":
		errs = append(errs, field.Required(mode, "must be specified when `ip` is set"))
	case in.IPMode != nil && in.IP == "":
		errs = append(errs, field.Forbidden(mode, "may not be specified when `ip` is not set"))
	case in.IPMode != nil:
		errs = append(errs, check.OneOf(mode, *in.IPMode, corev1.LoadBalancerIPModeProxy, corev1.LoadBalancerIPModeVIP)...)
	}
	if in.Hostname != "" {
		errs = append(errs, check.DNSSubdomain(path.Child("hostname"), in.Hostname)...)
		if netutils.ParseIPSloppy(in.Hostname) != nil {
			errs = append(errs, field.Invalid(path.Child("hostname"), in.Hostname, "must be a DNS name, not an IP address"))
		}
	}
	return errs
}
