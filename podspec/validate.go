package podspec

import (
	"fmt"
	"math"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validator validates one pod spec.
type validator struct {
	report
	spec  *corev1.PodSpec
	meta  *metav1.ObjectMeta // of a pod; nil in a template
	pod   bool
	allow leniency
	// volumes are the valid volumes, by name.
	volumes map[string]*corev1.VolumeSource
	// claims are the names in spec.resourceClaims.
	claims map[string]bool
	choice string // claims as text for errors; built on demand
}

// ValidateTemplate validates a pod template at path, including its labels and annotations.
func ValidateTemplate(t *corev1.PodTemplateSpec, path *field.Path, o Options) field.ErrorList {
	v := newValidator(&t.Spec, nil, o)
	specPath := path.Child("spec")
	v.add(metavalidation.ValidateLabels(t.Labels, path.Child("labels"))...)
	v.add(apivalidation.ValidateAnnotations(t.Annotations, path.Child("annotations"))...)
	v.annotations(t.Annotations, path.Child("annotations"))
	v.validate(specPath)
	v.seccompMatches(t.Annotations, specPath)
	v.appArmorMatches(t.Annotations, specPath)
	if len(t.Spec.EphemeralContainers) > 0 {
		v.forbidden(specPath.Child("ephemeralContainers"), "ephemeral containers not allowed in pod template")
	}
	return v.errs
}

// ValidateSpec validates a pod spec at path. meta is the pod's, or nil in a template. The rules that apply only to a
// whole pod or template are in ValidateTemplate and ValidateCreate.
func ValidateSpec(spec *corev1.PodSpec, meta *metav1.ObjectMeta, path *field.Path, o Options) field.ErrorList {
	v := newValidator(spec, meta, o)
	v.validate(path)
	return v.errs
}

func newValidator(spec *corev1.PodSpec, meta *metav1.ObjectMeta, o Options) *validator {
	v := &validator{spec: spec, meta: meta, pod: o.Pod, allow: o.leniency(), claims: map[string]bool{}}
	for _, c := range spec.ResourceClaims {
		if c.Name != "" {
			v.claims[c.Name] = true
		}
	}
	return v
}

func (v *validator) validate(path *field.Path) {
	spec := v.spec
	if spec.TerminationGracePeriodSeconds == nil {
		v.required(path.Child("terminationGracePeriodSeconds"), "")
	}
	v.allVolumes(path.Child("volumes"))
	v.resourceClaims(path.Child("resourceClaims"))
	v.containers(path.Child("containers"))
	v.initContainers(path.Child("initContainers"))
	v.ephemeralContainers(path.Child("ephemeralContainers"))
	v.podResources(path)
	v.hostNetworkPorts(path.Child("containers"))
	oneOfRequired(&v.report, path.Child("restartPolicy"), spec.RestartPolicy,
		corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever)
	oneOfRequired(&v.report, path.Child("dnsPolicy"), spec.DNSPolicy,
		corev1.DNSClusterFirstWithHostNet, corev1.DNSClusterFirst, corev1.DNSDefault, corev1.DNSNone)
	v.add(metavalidation.ValidateLabels(spec.NodeSelector, path.Child("nodeSelector"))...)
	v.podSecurityContext(path.Child("securityContext"))
	if share := spec.ShareProcessNamespace; share != nil && *share && spec.HostPID {
		v.invalid(path.Child("shareProcessNamespace"), *share, "ShareProcessNamespace and HostPID cannot both be enabled")
	}
	v.affinity(path.Child("affinity"))
	v.dnsConfig(path.Child("dnsConfig"))
	v.gates(path)
	v.spreadConstraints(path.Child("topologySpreadConstraints"))
	v.hostProcess(path)
	v.userNamespace(path)
	v.hostnameOverride(path)
	v.names(path)
	v.tolerations(spec.Tolerations, path.Child("tolerations"))
	v.hostAliases(path.Child("hostAliases"))
	v.classes(path)
	v.operatingSystem(path)
	v.schedulingGroup(path.Child("schedulingGroup"))
	v.envFileVolumes(path)
}

// names validates the pod's host name, subdomain, service account and node name.
func (v *validator) names(path *field.Path) {
	spec := v.spec
	if spec.ServiceAccountName != "" {
		v.name(path.Child("serviceAccountName"), spec.ServiceAccountName, false)
	}
	if old := spec.DeprecatedServiceAccount; old != spec.ServiceAccountName {
		v.invalid(path.Child("deprecatedServiceAccount"), old, fmt.Sprintf("must be the same as serviceAccountName: %q", spec.ServiceAccountName))
	}
	if spec.NodeName != "" {
		v.name(path.Child("nodeName"), spec.NodeName, false)
	}
	if d := spec.ActiveDeadlineSeconds; d != nil && (*d < 1 || *d > math.MaxInt32) {
		v.invalid(path.Child("activeDeadlineSeconds"), *d, validation.InclusiveRangeError(1, math.MaxInt32))
	}
	if spec.Hostname != "" {
		v.label(path.Child("hostname"), spec.Hostname)
	}
	if spec.Subdomain != "" {
		v.label(path.Child("subdomain"), spec.Subdomain)
	}
}

func (v *validator) gates(path *field.Path) {
	for i, gate := range v.spec.ReadinessGates {
		v.qualifiedName(path.Child("readinessGates").Index(i).Child("conditionType"), string(gate.ConditionType))
	}
	seen := map[string]bool{}
	for i, gate := range v.spec.SchedulingGates {
		at := path.Child("schedulingGates").Index(i)
		v.qualifiedName(at, gate.Name)
		if seen[gate.Name] {
			v.duplicate(at, gate.Name)
		}
		seen[gate.Name] = true
	}
}

// classes validates the names of a pod's classes and the fields that come with them.
func (v *validator) classes(path *field.Path) {
	spec := v.spec
	if spec.PriorityClassName != "" {
		v.name(path.Child("priorityClassName"), spec.PriorityClassName, false)
	}
	if spec.RuntimeClassName != nil {
		v.name(path.Child("runtimeClassName"), *spec.RuntimeClassName, false)
	}
	if spec.PreemptionPolicy != nil {
		oneOfRequired(&v.report, path.Child("preemptionPolicy"), *spec.PreemptionPolicy, corev1.PreemptLowerPriority, corev1.PreemptNever)
	}
	if spec.Overhead != nil {
		v.requirements(&corev1.ResourceRequirements{Limits: spec.Overhead}, path.Child("overhead"), false)
	}
}

func (v *validator) schedulingGroup(path *field.Path) {
	group := v.spec.SchedulingGroup
	switch {
	case group == nil:
	case group.PodGroupName == nil:
		v.invalid(path.Child("podGroupName"), group.PodGroupName, "must specify one of: `podGroupName`")
	default:
		v.name(path.Child("podGroupName"), *group.PodGroupName, false)
	}
	if group != nil && len(v.spec.EvictionResponders) > 0 {
		v.forbidden(path, "may not be set when evictionResponders is set")
	}
}
