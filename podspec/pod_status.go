package podspec

import (
	"fmt"
	"math"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/keelson-dev/keelson/podspec/restart"
)

// ValidateStatusUpdate validates an update of a pod's status. Terminated containers stay terminated unless their
// restart policy or rules restart them.
func ValidateStatusUpdate(pod, old *corev1.Pod) field.ErrorList {
	v := newValidator(&pod.Spec, &pod.ObjectMeta, podUpdate(old))
	s, before, path := &pod.Status, &old.Status, field.NewPath("status")
	v.annotationUpdates(pod.Annotations, old.Annotations, field.NewPath("metadata", "annotations"))
	v.conditions(s.Conditions, path.Child("conditions"))
	if pod.Spec.NodeName != old.Spec.NodeName {
		v.forbidden(path.Child("nodeName"), "may not be changed directly")
	}
	v.nomination(pod, old, path.Child("nominatedNodeName"))
	if s.ObservedGeneration < 0 {
		v.invalid(path.Child("observedGeneration"), s.ObservedGeneration, "must be a non-negative integer")
	}
	v.add(apivalidation.ValidateImmutableField(s.QOSClass, before.QOSClass, path.Child("qosClass"))...)
	v.restarts(s.ContainerStatuses, before.ContainerStatuses, old.Spec.Containers, path.Child("containerStatuses"), &old.Spec)
	v.restarts(s.InitContainerStatuses, before.InitContainerStatuses, old.Spec.InitContainers, path.Child("initContainerStatuses"), &old.Spec)
	v.restarts(s.EphemeralContainerStatuses, before.EphemeralContainerStatuses, nil, path.Child("ephemeralContainerStatuses"), nil)
	v.claimStatuses(s.ResourceClaimStatuses, path.Child("resourceClaimStatuses"))
	v.extendedClaim(s.ExtendedResourceClaimStatus, path.Child("extendedResourceClaimStatus"))
	v.nodeClaims(s, path.Child("nodeAllocatableResourceClaimStatuses"))
	v.volumeHealth(s.VolumeHealth, path.Child("volumeHealth"))
	v.podIPs(s, before, path.Child("podIPs"))
	v.hostIPs(s, before, path.Child("hostIPs"))
	v.users(s.ContainerStatuses, path.Child("containerStatuses"))
	v.users(s.InitContainerStatuses, path.Child("initContainerStatuses"))
	v.users(s.EphemeralContainerStatuses, path.Child("ephemeralContainerStatuses"))
	v.deviceHealth(s.ContainerStatuses, pod.Spec.Containers, s, path.Child("containerStatuses"))
	v.deviceHealth(s.InitContainerStatuses, pod.Spec.InitContainers, s, path.Child("initContainerStatuses"))
	for i := range s.EphemeralContainerStatuses {
		if len(s.EphemeralContainerStatuses[i].AllocatedResourcesStatus) > 0 {
			v.forbidden(path.Child("ephemeralContainerStatuses").Index(i).Child("allocatedResourcesStatus"), "must not be specified in container status")
		}
	}
	return v.errs
}

func (v *validator) conditions(list []corev1.PodCondition, p *field.Path) {
	for i, c := range list {
		if c.ObservedGeneration < 0 {
			v.invalid(p.Index(i).Child("observedGeneration"), c.ObservedGeneration, "must be a non-negative integer")
		}
		switch c.Type {
		case corev1.PodScheduled, corev1.PodReady, corev1.PodInitialized:
		default:
			v.qualifiedName(p.Index(i).Child("Type"), string(c.Type))
		}
	}
}

// nomination validates the node that a scheduler nominates for a pod; a bound pod has none.
func (v *validator) nomination(pod, old *corev1.Pod, p *field.Path) {
	name := pod.Status.NominatedNodeName
	if name == "" || name == old.Status.NominatedNodeName {
		return
	}
	v.name(p, name, false)
	if old.Spec.NodeName != "" {
		v.forbidden(p, "may not be set on pods that are already bound to a node")
	}
}

// restarts rejects statuses in which a terminated container that may not restart runs again.
func (v *validator) restarts(now, old []corev1.ContainerStatus, cs []corev1.Container, p *field.Path, spec *corev1.PodSpec) {
	if spec != nil && restart.Together(spec) {
		return
	}
	running := map[string]int{}
	for i := range now {
		if now[i].State.Terminated == nil {
			running[now[i].Name]++
		}
	}
	places := placesOf(cs)
	for i := range old {
		ended := old[i].State.Terminated
		if ended == nil {
			continue
		}
		n := running[old[i].Name]
		if spec != nil && n > 1 {
			n = 1 // reported once, except for ephemeral containers
		}
		if j, ok := places[old[i].Name]; ok && restart.After(spec, &cs[j], ended.ExitCode) {
			continue
		}
		for range n {
			v.forbidden(p.Index(i).Child("state"), "may not be transitioned to non-terminated state")
		}
	}
}

// placesOf returns the first index of each name in a list.
func placesOf(cs []corev1.Container) map[string]int {
	places := make(map[string]int, len(cs))
	for i := range cs {
		if _, ok := places[cs[i].Name]; !ok {
			places[cs[i].Name] = i
		}
	}
	return places
}

func (v *validator) claimStatuses(list []corev1.PodResourceClaimStatus, p *field.Path) {
	seen, known := map[string]bool{}, map[string]bool{}
	for i := range v.spec.ResourceClaims {
		known[v.spec.ResourceClaims[i].Name] = true
	}
	for i, s := range list {
		at := p.Index(i)
		if !known[s.Name] {
			v.invalid(at.Child("name"), s.Name, "must match the name of an entry in `spec.resourceClaims`")
		}
		if seen[s.Name] {
			v.duplicate(at.Child("name"), s.Name)
		}
		seen[s.Name] = true
		if s.ResourceClaimName != nil {
			v.invalid(at.Child("resourceClaimName"), s.ResourceClaimName, apivalidation.NameIsDNSSubdomain(*s.ResourceClaimName, false)...)
		}
	}
}

// extendedClaim validates the claim made for extended resources (KEP-5004).
func (v *validator) extendedClaim(s *corev1.PodExtendedResourceClaimStatus, p *field.Path) {
	if s == nil {
		return
	}
	at := p.Child("requestMappings")
	if len(s.RequestMappings) == 0 {
		v.required(at, "at least one request mapping is required")
	}
	byName := map[string]*corev1.Container{}
	for at := range v.spec.InitContainers {
		byName[v.spec.InitContainers[at].Name] = &v.spec.InitContainers[at]
	}
	for at := range v.spec.Containers {
		byName[v.spec.Containers[at].Name] = &v.spec.Containers[at]
	}
	seen := map[corev1.ContainerExtendedResourceRequest]bool{}
	for i, m := range s.RequestMappings {
		if c := byName[m.ContainerName]; c == nil {
			v.invalid(at.Index(i).Child("containerName"), m.ContainerName,
				"must match the name of an entry in spec.initContainers.name or spec.containers.name")
		} else if _, ok := c.Resources.Requests[corev1.ResourceName(m.ResourceName)]; !ok {
			v.invalid(at.Index(i).Child("resourceName"), m.ResourceName,
				"must match the extended resource name of an entry in spec.initContainers.resources.requests or spec.containers.resources.requests")
		}
		v.label(p.Child("requestName"), m.RequestName)
		if seen[m] {
			v.duplicate(at.Index(i).Child("containerName"), m.ContainerName)
			v.duplicate(at.Index(i).Child("resourceName"), m.ResourceName)
			v.duplicate(at.Index(i).Child("requestName"), m.RequestName)
		}
		seen[m] = true
	}
	if v.need(p.Child("resourceClaimName"), s.ResourceClaimName) {
		v.name(p.Child("resourceClaimName"), s.ResourceClaimName, false)
	}
}

func (v *validator) podIPs(s, old *corev1.PodStatus, p *field.Path) {
	ips, kept := make([]string, len(s.PodIPs)), make([]string, len(old.PodIPs))
	for i := range ips {
		ips[i] = s.PodIPs[i].IP
	}
	for i := range kept {
		kept[i] = old.PodIPs[i].IP
	}
	v.addresses(ips, kept, s.PodIPs, p)
	if (s.PodIP == "") != (len(ips) == 0) {
		v.invalid(p, asInternal(s.PodIPs), "podIP and podIPs must either both be set or both be unset")
	} else if len(ips) > 0 && s.PodIP != ips[0] {
		v.invalid(p.Index(0).Child("ip"), ips[0], "must be equal to `podIP`")
	}
}

func (v *validator) hostIPs(s, old *corev1.PodStatus, p *field.Path) {
	if len(s.HostIPs) == 0 {
		return
	}
	if s.HostIP != s.HostIPs[0].IP {
		v.invalid(p.Index(0).Child("ip"), s.HostIPs[0].IP, "must be equal to `hostIP`")
	}
	ips, kept := make([]string, len(s.HostIPs)), make([]string, len(old.HostIPs))
	for i := range ips {
		ips[i] = s.HostIPs[i].IP
	}
	for i := range kept {
		kept[i] = old.HostIPs[i].IP
	}
	v.addresses(ips, kept, s.HostIPs, p)
}

// addresses accepts one address, or one of each family; invalid ones may be kept.
func (v *validator) addresses(ips, kept []string, shown any, p *field.Path) {
	for i, ip := range ips {
		v.add(validation.IsValidIPForLegacyField(p.Index(i), ip, true, kept)...)
	}
	if len(ips) < 2 {
		return
	}
	dual, err := netutils.IsDualStackIPStrings(ips)
	if err != nil {
		v.add(field.InternalError(p, fmt.Errorf("failed to check for dual stack with error:%w", err)))
	}
	if !dual || len(ips) > 2 {
		v.invalid(p, asInternal(shown), "may specify no more than one IP for each IP family")
	}
}

func (v *validator) users(list []corev1.ContainerStatus, p *field.Path) {
	system := corev1.Linux
	if v.spec.OS != nil {
		system = v.spec.OS.Name
	}
	for i := range list {
		if list[i].User == nil || list[i].User.Linux == nil {
			continue
		}
		user, at := list[i].User.Linux, p.Index(i).Child("user", "linux")
		switch system {
		case corev1.Windows:
			v.forbidden(at, "cannot be set for a windows pod")
		case corev1.Linux:
			if user.UID < 0 || user.UID > math.MaxUint32 {
				v.invalid(at.Child("uid"), user.UID, fmt.Sprintf("must be between 0 and %d, inclusive", int64(math.MaxUint32)))
			}
			v.groupID(at.Child("gid"), &user.GID)
			for j := range user.SupplementalGroups {
				v.groupID(at.Child("supplementalGroups").Index(j), &user.SupplementalGroups[j])
			}
		}
	}
}
