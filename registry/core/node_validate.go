package core

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/keelson-dev/keelson/registry/internal/check"
)

// validateNode validates a node by itself. The paths of taints and swap are upstream's, odd as they are.
func validateNode(node *corev1.Node) field.ErrorList {
	meta := field.NewPath("metadata")
	errs := validateNodeAnnotations(node.Annotations, meta.Child("annotations"))
	errs = append(errs, validateTaints(node.Spec.Taints, meta.Child("taints"))...)
	errs = append(errs, validateNodeResources(&node.Status)...)
	if swap := node.Status.NodeInfo.Swap; swap != nil && swap.Capacity != nil && *swap.Capacity <= 0 {
		errs = append(errs, field.Invalid(meta.Child("nodeSwapStatus", "capacity"), *swap.Capacity, "must be greater than zero"))
	}
	errs = append(errs, validateDeclaredFeatures(node.Status.DeclaredFeatures, field.NewPath("status", "declaredFeatures"))...)
	return append(errs, validatePodCIDRs(node.Spec.PodCIDRs, field.NewPath("spec", "podCIDRs"))...)
}

// validateNodeStatus validates an update of the status. It validates the taints again, although they cannot
// have changed.
func validateNodeStatus(node, old *corev1.Node) field.ErrorList {
	meta := field.NewPath("metadata")
	errs := validateNodeAnnotations(node.Annotations, meta.Child("annotations"))
	errs = append(errs, validateNodeResources(&node.Status)...)
	errs = append(errs, validateDeclaredFeatures(node.Status.DeclaredFeatures, field.NewPath("status", "declaredFeatures"))...)
	errs = append(errs, validateNodeChange(node, old)...)
	return append(errs, validateTaints(node.Spec.Taints, meta.Child("taints"))...)
}

// validateNodeChange validates the changes of an update.
func validateNodeChange(node, old *corev1.Node) field.ErrorList {
	spec, status := field.NewPath("spec"), field.NewPath("status")
	errs := validateAddresses(node.Status.Addresses, status.Child("addresses"))
	errs = append(errs, validatePodCIDRsKept(node.Spec.PodCIDRs, old.Spec.PodCIDRs, spec.Child("podCIDRs"))...)
	if id, before := node.Spec.ProviderID, old.Spec.ProviderID; before != "" && id != before {
		message := "field cannot be modified once set"
		if id == "" {
			message = "field cannot be cleared once set"
		}
		errs = append(errs, field.Invalid(spec.Child("providerID"), nil, message))
	}
	if source := node.Spec.ConfigSource; source != nil {
		errs = append(errs, validateConfigSource(source, spec.Child("configSource"), false)...)
	}
	if config := node.Status.Config; config != nil {
		path := status.Child("config")
		errs = append(errs, validateConfigStatus(config.Assigned, path.Child("assigned"))...)
		errs = append(errs, validateConfigStatus(config.Active, path.Child("active"))...)
		errs = append(errs, validateConfigStatus(config.LastKnownGood, path.Child("lastKnownGood"))...)
	}
	if node.Spec.DoNotUseExternalID != old.Spec.DoNotUseExternalID {
		errs = append(errs, field.Forbidden(spec.Child("externalID"), "may not be updated"))
	}
	// The feature is off by default: a stored policy can only be removed.
	if policy := node.Spec.PodPreemptionPolicy; policy != nil && !equality.Semantic.DeepEqual(policy, old.Spec.PodPreemptionPolicy) {
		errs = append(errs, field.Forbidden(spec.Child("podPreemptionPolicy"), ""))
	}
	return errs
}

// taintsAnnotation is the former place of taints.
const taintsAnnotation = "scheduler.alpha.kubernetes.io/taints"

func validateNodeAnnotations(annotations map[string]string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if raw := annotations[taintsAnnotation]; raw != "" {
		var taints []corev1.Taint
		if err := json.Unmarshal([]byte(raw), &taints); err != nil {
			message := strings.ReplaceAll(err.Error(), "v1.Taint", "core.Taint") // as upstream calls the type
			errs = append(errs, field.Invalid(path, taintsAnnotation, message))
		} else {
			errs = append(errs, validateTaints(taints, path.Child(taintsAnnotation))...)
		}
	}
	if raw := annotations[corev1.PreferAvoidPodsAnnotationKey]; raw != "" {
		var avoid corev1.AvoidPods
		if err := json.Unmarshal([]byte(raw), &avoid); err != nil {
			return append(errs, field.Invalid(path.Child("AvoidPods"), corev1.PreferAvoidPodsAnnotationKey, err.Error()))
		}
		for i := range avoid.PreferAvoidPods {
			path := path.Child(corev1.PreferAvoidPodsAnnotationKey).Index(i).Child("PodSignature")
			errs = append(errs, validateAvoided(&avoid.PreferAvoidPods[i], path)...)
		}
	}
	return errs
}

func validateAvoided(entry *corev1.PreferAvoidPodsEntry, path *field.Path) field.ErrorList {
	owner := entry.PodSignature.PodController
	switch {
	case owner == nil:
		return field.ErrorList{field.Required(path, "")}
	case owner.Controller == nil || !*owner.Controller:
		return field.ErrorList{field.Invalid(path.Child("PodController", "Controller"), false, "must point to a controller")}
	}
	return nil
}

// shownTaint is the form of a taint in errors.
type shownTaint struct {
	Key, Value string
	Effect     corev1.TaintEffect
	TimeAdded  *metav1.Time
}

func validateTaints(taints []corev1.Taint, path *field.Path) field.ErrorList {
	type key struct {
		key    string
		effect corev1.TaintEffect
	}
	var errs field.ErrorList
	seen := map[key]bool{}
	for i, taint := range taints {
		path := path.Index(i)
		errs = append(errs, metavalidation.ValidateLabelName(taint.Key, path.Child("key"))...)
		if messages := validation.IsValidLabelValue(taint.Value); len(messages) > 0 {
			errs = append(errs, field.Invalid(path.Child("value"), taint.Value, strings.Join(messages, ";")))
		}
		errs = append(errs, check.RequiredOneOf(path.Child("effect"), taint.Effect,
			corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute)...)
		k := key{taint.Key, taint.Effect}
		if seen[k] {
			twice := field.Duplicate(path, shownTaint(taint))
			twice.Detail = "taints must be unique by key and effect pair"
			errs = append(errs, twice)
		}
		seen[k] = true
	}
	return errs
}

func validateNodeResources(status *corev1.NodeStatus) field.ErrorList {
	errs := validateQuantities(status.Capacity, field.NewPath("status", "capacity"))
	return append(errs, validateQuantities(status.Allocatable, field.NewPath("status", "allocatable"))...)
}

func validateQuantities(list corev1.ResourceList, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(list)) {
		quantity, path := list[name], path.Child(string(name))
		if quantity.Cmp(resource.Quantity{}) < 0 {
			errs = append(errs, field.Invalid(path, quantity.String(), apivalidation.IsNegativeErrorMsg))
		}
		if isInteger(name) && quantity.MilliValue()%1000 != 0 {
			errs = append(errs, field.Invalid(path, quantity, "must be an integer"))
		}
	}
	return errs
}

// isInteger reports whether quantities of a resource must be integers: those of countable objects and extended
// resources.
func isInteger(name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourcePods, corev1.ResourceQuotas, corev1.ResourceServices, corev1.ResourceReplicationControllers,
		corev1.ResourceSecrets, corev1.ResourceConfigMaps, corev1.ResourcePersistentVolumeClaims,
		corev1.ResourceServicesNodePorts, corev1.ResourceServicesLoadBalancers:
		return true
	}
	s := string(name)
	if !strings.Contains(s, "/") || strings.Contains(s, corev1.ResourceDefaultNamespacePrefix) ||
		strings.HasPrefix(s, corev1.DefaultResourceRequestsPrefix) {
		return false
	}
	return len(validation.IsQualifiedName(corev1.DefaultResourceRequestsPrefix+s)) == 0
}

// declaredFeature is UpperCamelCase, then further segments after slashes (KEP-5328).
var declaredFeature = regexp.MustCompile(`^[A-Z][a-zA-Z0-9]*(\/[a-zA-Z][a-zA-Z0-9]*)*$`)

func validateDeclaredFeatures(features []string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, name := range features {
		switch {
		case len(name) > validation.DNS1123SubdomainMaxLength:
			errs = append(errs, field.Invalid(path.Index(i), name, fmt.Sprintf(
				"invalid feature name %q: must be no more than %d characters", name, validation.DNS1123SubdomainMaxLength)))
		case !declaredFeature.MatchString(name):
			errs = append(errs, field.Invalid(path.Index(i), name, fmt.Sprintf(
				"invalid feature name %q: must start with an UpperCamelCase segment, with subsequent segments separated by '/' "+
					"(e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes", name)))
		}
		if i+1 == len(features) {
			break
		}
		switch next := features[i+1]; strings.Compare(name, next) {
		case 0:
			errs = append(errs, field.Duplicate(path.Index(i+1), next))
		case 1:
			errs = append(errs, field.Invalid(path.Index(i+1), next, "list must be sorted alphabetically"))
		}
	}
	return errs
}

// validatePodCIDRs requires networks, at most one per IP family.
func validatePodCIDRs(cidrs []string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, cidr := range cidrs {
		errs = append(errs, check.CIDR(path.Index(i), cidr, nil)...)
	}
	if len(cidrs) < 2 {
		return errs
	}
	dual, err := netutils.IsDualStackCIDRStrings(cidrs)
	if err != nil {
		errs = append(errs, field.InternalError(path, fmt.Errorf("invalid PodCIDRs. failed to check with dual stack with error:%w", err)))
	}
	if !dual || len(cidrs) > 2 {
		errs = append(errs, field.Invalid(path, cidrs, "may specify no more than one CIDR for each IP family"))
	}
	return errs
}

// validatePodCIDRsKept allows setting the networks of a node once.
func validatePodCIDRsKept(cidrs, old []string, path *field.Path) field.ErrorList {
	refusal := field.Forbidden(path, `node updates may not change podCIDR except from "" to valid`)
	if len(old) > 0 && len(old) != len(cidrs) {
		return field.ErrorList{refusal}
	}
	var errs field.ErrorList
	for i := range old {
		if old[i] != cidrs[i] {
			errs = append(errs, refusal)
		}
	}
	return errs
}

// shownAddress is the form of a node's address in errors.
type shownAddress struct {
	Type    corev1.NodeAddressType
	Address string
}

func validateAddresses(addresses []corev1.NodeAddress, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := map[corev1.NodeAddress]bool{}
	for i, address := range addresses {
		if seen[address] {
			errs = append(errs, field.Duplicate(path.Index(i), shownAddress(address)))
		}
		seen[address] = true
	}
	return errs
}

func validateConfigStatus(source *corev1.NodeConfigSource, path *field.Path) field.ErrorList {
	if source == nil {
		return nil
	}
	return validateConfigSource(source, path, true)
}

// validateConfigSource validates the reference to a kubelet's configuration, a removed feature: in a spec it
// names a configmap, in a status a certain version of one.
func validateConfigSource(source *corev1.NodeConfigSource, path *field.Path, observed bool) field.ErrorList {
	ref := source.ConfigMap
	if ref == nil {
		return field.ErrorList{field.Invalid(path, struct{ ConfigMap any }{}, "exactly one reference subfield must be non-nil")}
	}
	path = path.Child("configMap")
	var errs field.ErrorList
	for _, v := range []struct{ name, value string }{{"uid", string(ref.UID)}, {"resourceVersion", ref.ResourceVersion}} {
		switch {
		case observed && v.value == "":
			errs = append(errs, field.Required(path.Child(v.name), ""))
		case !observed && v.value != "":
			errs = append(errs, field.Forbidden(path.Child(v.name), v.name+" must not be set in spec"))
		}
	}
	part := func(name, value string, valid func(string) []string) {
		if value == "" {
			errs = append(errs, field.Required(path.Child(name), ""))
			return
		}
		errs = append(errs, check.Messages(path.Child(name), value, valid(value))...)
	}
	part("namespace", ref.Namespace, func(s string) []string { return apivalidation.ValidateNamespaceName(s, false) })
	part("name", ref.Name, func(s string) []string { return apivalidation.NameIsDNSSubdomain(s, false) })
	part("kubeletConfigKey", ref.KubeletConfigKey, validation.IsConfigMapKey)
	return errs
}
