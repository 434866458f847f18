package podspec

import (
	// The digest algorithms allowed in image references.
	_ "crypto/sha256"
	_ "crypto/sha512"

	"github.com/distribution/reference"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Default fills the unset fields of a pod spec, in a pod or a template, with the defaults of the core/v1 API. It is
// idempotent.
func Default(spec *corev1.PodSpec) {
	if spec.ServiceAccountName == "" {
		spec.ServiceAccountName = spec.DeprecatedServiceAccount
	}
	spec.DeprecatedServiceAccount = spec.ServiceAccountName
	setIfZero(&spec.DNSPolicy, corev1.DNSClusterFirst)
	setIfZero(&spec.RestartPolicy, corev1.RestartPolicyAlways)
	setIfZero(&spec.SchedulerName, corev1.DefaultSchedulerName)
	if spec.SecurityContext == nil {
		spec.SecurityContext = &corev1.PodSecurityContext{}
	}
	setIfNil(&spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)
	for i := range spec.Volumes {
		defaultVolume(&spec.Volumes[i])
	}
	for c := range containers(spec) {
		defaultContainer(c)
	}
	roundUp(spec.Overhead)
	if spec.Resources != nil {
		roundUp(spec.Resources.Limits)
		roundUp(spec.Resources.Requests)
	}
}

// DefaultPod fills the unset fields of a pod. In addition to Default, which also applies to templates, it sets a pod's
// requests from its limits, and the host ports of a pod on the host's network.
func DefaultPod(pod *corev1.Pod) {
	spec := &pod.Spec
	if g := spec.TerminationGracePeriodSeconds; g != nil && *g < 0 {
		one := int64(1)
		spec.TerminationGracePeriodSeconds = &one
	}
	for i := range spec.Containers {
		requestLimits(&spec.Containers[i].Resources)
	}
	for i := range spec.InitContainers {
		requestLimits(&spec.InitContainers[i].Resources)
	}
	setIfNil(&spec.EnableServiceLinks, corev1.DefaultEnableServiceLinks)
	if spec.HostNetwork {
		openHostPorts(spec.Containers)
		openHostPorts(spec.InitContainers)
	}
	Default(spec)
	defaultStatus(&pod.Status)
}

// requestLimits sets missing requests to the limits.
func requestLimits(r *corev1.ResourceRequirements) {
	if r.Limits == nil {
		return
	}
	if r.Requests == nil {
		r.Requests = corev1.ResourceList{}
	}
	for name, limit := range r.Limits {
		if _, ok := r.Requests[name]; !ok {
			r.Requests[name] = limit.DeepCopy()
		}
	}
}

func openHostPorts(cs []corev1.Container) {
	for i := range cs {
		for j := range cs[i].Ports {
			port := &cs[i].Ports[j]
			setIfZero(&port.HostPort, port.ContainerPort)
		}
	}
}

func defaultContainer(c *corev1.Container) {
	setIfZero(&c.ImagePullPolicy, pullPolicy(c.Image))
	setIfZero(&c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
	setIfZero(&c.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
	for i := range c.Ports {
		setIfZero(&c.Ports[i].Protocol, corev1.ProtocolTCP)
	}
	for i := range c.Env {
		from := c.Env[i].ValueFrom
		if from == nil {
			continue
		}
		defaultFieldRef(from.FieldRef)
		if from.FileKeyRef != nil {
			setIfNil(&from.FileKeyRef.Optional, false)
		}
	}
	roundUp(c.Resources.Limits)
	roundUp(c.Resources.Requests)
	for p := range probes(c) {
		defaultProbe(p)
	}
	for h := range hooks(c) {
		defaultHTTPGet(h.HTTPGet)
	}
}

// pullPolicy returns Always for an image with the tag "latest" or with neither tag nor digest.
func pullPolicy(image string) corev1.PullPolicy {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return corev1.PullIfNotPresent
	}
	if tagged, ok := named.(reference.Tagged); ok && tagged.Tag() == "latest" || reference.IsNameOnly(named) {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}

func defaultProbe(p *corev1.Probe) {
	setIfZero(&p.TimeoutSeconds, 1)
	setIfZero(&p.PeriodSeconds, 10)
	setIfZero(&p.SuccessThreshold, 1)
	setIfZero(&p.FailureThreshold, 3)
	defaultHTTPGet(p.HTTPGet)
	if p.GRPC != nil {
		setIfNil(&p.GRPC.Service, "")
	}
}

func defaultHTTPGet(h *corev1.HTTPGetAction) {
	if h != nil {
		setIfZero(&h.Path, "/")
		setIfZero(&h.Scheme, corev1.URISchemeHTTP)
	}
}

func defaultFieldRef(f *corev1.ObjectFieldSelector) {
	if f != nil {
		setIfZero(&f.APIVersion, "v1")
	}
}

// defaultStatus keeps a pod's single address and its list consistent; the single one wins, because old nodes write only
// that.
func defaultStatus(s *corev1.PodStatus) {
	switch {
	case s.PodIP == "" && len(s.PodIPs) > 0:
		s.PodIP = s.PodIPs[0].IP
	case s.PodIP != "" && (len(s.PodIPs) == 0 || s.PodIPs[0].IP != s.PodIP):
		s.PodIPs = []corev1.PodIP{{IP: s.PodIP}}
	}
	for _, statuses := range [][]corev1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses, s.EphemeralContainerStatuses} {
		for i := range statuses {
			roundUp(statuses[i].AllocatedResources)
			if r := statuses[i].Resources; r != nil {
				roundUp(r.Limits)
				roundUp(r.Requests)
			}
		}
	}
	roundUp(s.AllocatedResources)
	if s.Resources != nil {
		roundUp(s.Resources.Limits)
		roundUp(s.Resources.Requests)
	}
}

// roundUp rounds quantities up to thousandths, the API's precision.
func roundUp(list corev1.ResourceList) {
	for name, q := range list {
		q.RoundUp(resource.Milli)
		list[name] = q
	}
}

func setIfZero[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func setIfNil[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}
