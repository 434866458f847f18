package downward

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Field returns a field of the pod's metadata: metadata.name, .namespace, .uid, .labels and .annotations, and single
// labels and annotations as .labels['key'] and .annotations['key'].
func Field(pod *corev1.Pod, path string) (string, error) {
	if field, key, ok := subscript(path); ok {
		switch field {
		case "metadata.annotations":
			if errs := validation.IsQualifiedName(strings.ToLower(key)); len(errs) > 0 {
				return "", fmt.Errorf("invalid key subscript in %s: %s", path, strings.Join(errs, ";"))
			}
			return pod.Annotations[key], nil
		case "metadata.labels":
			if errs := validation.IsQualifiedName(key); len(errs) > 0 {
				return "", fmt.Errorf("invalid key subscript in %s: %s", path, strings.Join(errs, ";"))
			}
			return pod.Labels[key], nil
		default:
			return "", fmt.Errorf("fieldPath %q does not support subscript", path)
		}
	}
	switch path {
	case "metadata.annotations":
		return FormatMap(pod.Annotations), nil
	case "metadata.labels":
		return FormatMap(pod.Labels), nil
	case "metadata.name":
		return pod.Name, nil
	case "metadata.namespace":
		return pod.Namespace, nil
	case "metadata.uid":
		return string(pod.UID), nil
	default:
		return "", fmt.Errorf("unsupported fieldPath: %v", path)
	}
}

// subscript splits field['key'].
func subscript(path string) (field, key string, ok bool) {
	rest, ok := strings.CutSuffix(path, "']")
	if !ok {
		return path, "", false
	}
	field, key, ok = strings.Cut(rest, "['")
	return field, key, ok && field != ""
}

// FormatMap formats labels or annotations, one key="value" per line, sorted by key.
func FormatMap(m map[string]string) string {
	var out []byte
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if len(out) > 0 {
			out = append(out, '\n')
		}
		out = append(out, k...)
		out = append(out, '=')
		out = strconv.AppendQuote(out, m[k])
	}
	return string(out)
}

// Limits returns the limits for containers that set none of their own: the pod's limits, or else what the node has for
// pods.
func Limits(pod *corev1.Pod, allocatable corev1.ResourceList) corev1.ResourceList {
	if pod.Spec.Resources == nil {
		return allocatable
	}
	out := maps.Clone(allocatable)
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if q := pod.Spec.Resources.Limits[name]; !q.IsZero() {
			if _, known := out[name]; known {
				out[name] = q
			}
		}
	}
	return out
}

// Container returns the pod's container or init container of that name.
func Container(pod *corev1.Pod, name string) (*corev1.Container, error) {
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		if i := slices.IndexFunc(list, func(c corev1.Container) bool { return c.Name == name }); i >= 0 {
			return &list[i], nil
		}
	}
	return nil, fmt.Errorf("container %s not found", name)
}

// Resource returns a request or limit of a container in units of the selector's divisor, rounded up. If the container
// has no limit for CPU, memory or ephemeral storage, the one in bounds applies.
func Resource(selector *corev1.ResourceFieldSelector, c *corev1.Container, bounds corev1.ResourceList) (string, error) {
	part, name, _ := strings.Cut(selector.Resource, ".")
	var list corev1.ResourceList
	switch part {
	case "limits":
		list = c.Resources.Limits
	case "requests":
		list = c.Resources.Requests
	}
	known := name == "cpu" || name == "memory" || name == "ephemeral-storage" || strings.HasPrefix(name, corev1.ResourceHugePagesPrefix)
	if !known || part != "limits" && part != "requests" {
		return "", fmt.Errorf("unsupported container resource : %v", selector.Resource)
	}
	value := list[corev1.ResourceName(name)]
	if part == "limits" && value.IsZero() && !strings.HasPrefix(name, corev1.ResourceHugePagesPrefix) {
		value = bounds[corev1.ResourceName(name)]
	}
	divisor := selector.Divisor
	if divisor.IsZero() {
		divisor = *resource.NewQuantity(1, resource.DecimalSI)
	}
	if name == "cpu" {
		return ratio(value.MilliValue(), divisor.MilliValue()), nil
	}
	return ratio(value.Value(), divisor.Value()), nil
}

func ratio(value, divisor int64) string {
	return strconv.FormatInt(int64(math.Ceil(float64(value)/float64(divisor))), 10)
}
