package podspec

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/podspec/restart"
)

func (v *validator) containers(p *field.Path) {
	if len(v.spec.Containers) == 0 {
		v.required(p, "")
	}
	names := map[string]bool{}
	for i := range v.spec.Containers {
		c, at := &v.spec.Containers[i], p.Index(i)
		v.container(c, at)
		if names[c.Name] {
			v.duplicate(at.Child("name"), c.Name)
		}
		names[c.Name] = true
		v.running(c, at)
		v.restartRules(c, at, false)
	}
	v.hostPorts(v.spec.Containers, p)
}

func (v *validator) initContainers(p *field.Path) {
	names := map[string]bool{}
	for i := range v.spec.Containers {
		names[v.spec.Containers[i].Name] = true
	}
	for i := range v.spec.InitContainers {
		c, at := &v.spec.InitContainers[i], p.Index(i)
		v.container(c, at)
		v.restartRules(c, at, true)
		if names[c.Name] {
			v.duplicate(at.Child("name"), c.Name)
		} else if c.Name != "" {
			names[c.Name] = true
		}
		// They run one after another: their ports cannot conflict.
		v.hostPorts(v.spec.InitContainers[i:i+1], p)
		if restart.Sidecar(c) {
			v.running(c, at)
			continue
		}
		v.notRunning(c, at)
	}
}

// notRunning forbids fields in an ordinary init container that only long-running containers may have.
func (v *validator) notRunning(c *corev1.Container, p *field.Path) {
	const detail = "may not be set for init containers without restartPolicy=Always"
	if c.Lifecycle != nil {
		v.forbidden(p.Child("lifecycle"), detail)
	}
	if c.LivenessProbe != nil {
		v.forbidden(p.Child("livenessProbe"), detail)
	}
	if c.ReadinessProbe != nil {
		v.forbidden(p.Child("readinessProbe"), detail)
	}
	if c.StartupProbe != nil {
		v.forbidden(p.Child("startupProbe"), detail)
	}
	if v.allow.restartingInitResize {
		return
	}
	for i, policy := range c.ResizePolicy {
		if policy.RestartPolicy == corev1.RestartContainer {
			v.invalid(p.Child("resizePolicy").Index(i).Child("restartPolicy"), policy.RestartPolicy,
				"must not be set to 'RestartContainer' for non-sidecar initContainers")
		}
	}
}

// running validates the fields of a long-running container: its hooks and probes.
func (v *validator) running(c *corev1.Container, p *field.Path) {
	if c.Lifecycle != nil {
		v.lifecycle(c.Lifecycle, p.Child("lifecycle"))
	}
	v.probe(c.LivenessProbe, p.Child("livenessProbe"), liveness)
	v.probe(c.ReadinessProbe, p.Child("readinessProbe"), readiness)
	v.probe(c.StartupProbe, p.Child("startupProbe"), startup)
}

func (v *validator) ephemeralContainers(p *field.Path) {
	if len(v.spec.EphemeralContainers) == 0 {
		return
	}
	names, targets := map[string]bool{}, map[string]bool{}
	for _, c := range slices.Concat(v.spec.Containers, v.spec.InitContainers) {
		names[c.Name], targets[c.Name] = true, true
	}
	for i := range v.spec.EphemeralContainers {
		e, at := &v.spec.EphemeralContainers[i], p.Index(i)
		c := (*corev1.Container)(&e.EphemeralContainerCommon)
		v.container(c, at)
		v.trimmedImage(c, at)
		if names[e.Name] {
			v.duplicate(at.Child("name"), e.Name)
		}
		names[e.Name] = true
		if e.TargetContainerName != "" && !targets[e.TargetContainerName] {
			v.notFound(at.Child("targetContainerName"), e.TargetContainerName)
		}
		const detail = "cannot be set for an Ephemeral Container"
		v.onlyFields(at, e.EphemeralContainerCommon, detail, "Name", "Image", "Command", "Args", "WorkingDir", "EnvFrom", "Env",
			"VolumeMounts", "VolumeDevices", "TerminationMessagePath", "TerminationMessagePolicy", "ImagePullPolicy",
			"SecurityContext", "Stdin", "StdinOnce", "TTY")
		// Bind mounts of subpaths would remain until the pod ends.
		for j, m := range e.VolumeMounts {
			if m.SubPath != "" {
				v.forbidden(at.Child("volumeMounts").Index(j).Child("subPath"), detail)
			}
			if m.SubPathExpr != "" {
				v.forbidden(at.Child("volumeMounts").Index(j).Child("subPathExpr"), detail)
			}
		}
	}
}

// trimmedImage applies to pods only: templates may have a space as a placeholder for the image.
func (v *validator) trimmedImage(c *corev1.Container, p *field.Path) {
	if strings.TrimSpace(c.Image) != c.Image {
		v.invalid(p.Child("image"), c.Image, "must not have leading or trailing whitespace")
	}
}

// container validates the fields that all types of containers have.
func (v *validator) container(c *corev1.Container, p *field.Path) {
	if v.need(p.Child("name"), c.Name) {
		v.label(p.Child("name"), c.Name)
	}
	v.need(p.Child("image"), c.Image)
	oneOfRequired(&v.report, p.Child("terminationMessagePolicy"), c.TerminationMessagePolicy,
		corev1.TerminationMessageReadFile, corev1.TerminationMessageFallbackToLogsOnError)
	v.ports(c.Ports, p.Child("ports"))
	v.env(c.Env, p.Child("env"))
	v.envFrom(c.EnvFrom, p.Child("envFrom"))
	v.mounts(c, p.Child("volumeMounts"))
	v.devices(c, p.Child("volumeDevices"))
	v.pullPolicy(p.Child("imagePullPolicy"), c.ImagePullPolicy)
	v.requirements(&c.Resources, p.Child("resources"), false)
	v.resizePolicy(c.ResizePolicy, p.Child("resizePolicy"))
	v.securityContext(c.SecurityContext, p.Child("securityContext"))
}

func (v *validator) pullPolicy(p *field.Path, policy corev1.PullPolicy) {
	oneOfRequired(&v.report, p, policy, corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)
}

func (v *validator) ports(ports []corev1.ContainerPort, p *field.Path) {
	names := map[string]bool{}
	for i, port := range ports {
		at := p.Index(i)
		if port.Name != "" {
			messages := validation.IsValidPortName(port.Name)
			v.invalid(at.Child("name"), port.Name, messages...)
			if len(messages) == 0 && names[port.Name] {
				v.duplicate(at.Child("name"), port.Name)
			}
			names[port.Name] = names[port.Name] || len(messages) == 0
		}
		if port.ContainerPort == 0 {
			v.required(at.Child("containerPort"), "")
		} else {
			v.invalid(at.Child("containerPort"), port.ContainerPort, validation.IsValidPortNum(int(port.ContainerPort))...)
		}
		if port.HostPort != 0 {
			v.invalid(at.Child("hostPort"), port.HostPort, validation.IsValidPortNum(int(port.HostPort))...)
		}
		oneOfRequired(&v.report, at.Child("protocol"), port.Protocol, corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP)
	}
}

// hostPorts rejects a host port that two of the containers use.
func (v *validator) hostPorts(cs []corev1.Container, p *field.Path) {
	taken := map[string]bool{}
	for i := range cs {
		for j, port := range cs[i].Ports {
			if port.HostPort == 0 {
				continue
			}
			key := fmt.Sprintf("%s/%s/%d", port.Protocol, port.HostIP, port.HostPort)
			if taken[key] {
				v.duplicate(p.Index(i).Child("ports").Index(j).Child("hostPort"), key)
			}
			taken[key] = true
		}
	}
}

// resizePolicy validates how a container handles a change of its resources (KEP-1287).
func (v *validator) resizePolicy(policies []corev1.ContainerResizePolicy, p *field.Path) {
	seen := map[corev1.ResourceName]bool{}
	for i, policy := range policies {
		if seen[policy.ResourceName] {
			v.duplicate(p.Index(i), policy.ResourceName)
		}
		seen[policy.ResourceName] = true
		oneOfRequired(&v.report, p, policy.ResourceName, corev1.ResourceCPU, corev1.ResourceMemory)
		oneOfRequired(&v.report, p, policy.RestartPolicy, corev1.NotRequired, corev1.RestartContainer)
		if v.spec.RestartPolicy == corev1.RestartPolicyNever && policy.RestartPolicy != corev1.NotRequired {
			v.invalid(p, policy.RestartPolicy, "must be 'NotRequired' when pod `restartPolicy` is 'Never'")
		}
	}
}

// restartRules validates a container's own restart policy and its rules by exit code (KEP-5307).
func (v *validator) restartRules(c *corev1.Container, p *field.Path, init bool) {
	at, rules := p.Child("restartPolicyRules"), c.RestartPolicyRules
	switch {
	case c.RestartPolicy != nil:
		oneOf(&v.report, p.Child("restartPolicy"), *c.RestartPolicy,
			corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicyNever, corev1.ContainerRestartPolicyOnFailure)
	case len(rules) == 0:
		return
	default:
		v.required(p.Child("restartPolicy"), "must specify restartPolicy when restart rules are used")
		if init {
			return
		}
	}
	if len(rules) > 20 {
		v.add(field.TooMany(at, len(rules), 20))
	}
	for i, rule := range rules {
		oneOf(&v.report, at.Index(i).Child("action"), rule.Action,
			corev1.ContainerRestartRuleActionRestart, corev1.ContainerRestartRuleActionRestartAllContainers)
		codes := at.Index(i).Child("exitCodes")
		if rule.ExitCodes == nil {
			v.required(codes, "must be specified")
			continue
		}
		oneOf(&v.report, codes.Child("operator"), rule.ExitCodes.Operator,
			corev1.ContainerRestartRuleOnExitCodesOpIn, corev1.ContainerRestartRuleOnExitCodesOpNotIn)
		if n := len(rule.ExitCodes.Values); n > 255 {
			v.add(field.TooMany(codes.Child("values"), n, 255))
		}
	}
}
