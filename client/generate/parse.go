package generate

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/keelson-dev/keelson/internal/boundedquantity"
)

// Labels reads labels as flags carry them: "app=web,tier=front". No text is no labels.
func Labels(text string) (map[string]string, error) {
	if text == "" {
		return nil, nil
	}
	labels := map[string]string{}
	for pair := range strings.SplitSeq(text, ",") {
		parts := strings.Split(pair, "=")
		switch {
		case len(parts) != 2:
			return nil, fmt.Errorf("unexpected label spec: %s", pair)
		case parts[0] == "":
			return nil, fmt.Errorf("unexpected empty label key")
		}
		if problems := validation.IsQualifiedName(parts[0]); len(problems) > 0 {
			return nil, fmt.Errorf("invalid label key %q: %s", parts[0], strings.Join(problems, "; "))
		}
		if problems := validation.IsValidLabelValue(parts[1]); len(problems) > 0 {
			return nil, fmt.Errorf("invalid label value %q: %s", pair, strings.Join(problems, "; "))
		}
		labels[parts[0]] = parts[1]
	}
	return labels, nil
}

// Env reads environment variables as flags carry them, each "NAME=value".
func Env(texts []string) ([]corev1.EnvVar, error) {
	var env []corev1.EnvVar
	for _, text := range texts {
		name, value, found := strings.Cut(text, "=")
		if !found || len(validation.IsEnvVarName(name)) > 0 {
			return nil, fmt.Errorf("invalid env: %v", text)
		}
		env = append(env, corev1.EnvVar{Name: name, Value: value})
	}
	return env, nil
}

// Annotations reads annotations as flags carry them, each "key=value".
func Annotations(texts []string) (map[string]string, error) {
	var annotations map[string]string
	var invalid []string
	for _, text := range texts {
		key, value, found := strings.Cut(text, "=")
		if !found || key == "" {
			invalid = append(invalid, text)
			continue
		}
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[key] = value
	}
	if len(invalid) > 0 {
		return nil, fmt.Errorf("invalid annotations format: %s", strings.Join(invalid, ", "))
	}
	return annotations, nil
}

// Resources reads amounts of resources as flags carry them: "cpu=1,memory=1Gi". No text is none.
func Resources(text string) (corev1.ResourceList, error) {
	if text == "" {
		return nil, nil
	}
	list := corev1.ResourceList{}
	for statement := range strings.SplitSeq(text, ",") {
		parts := strings.Split(statement, "=")
		if len(parts) != 2 {
			return nil, fmt.Errorf("Invalid argument syntax %v, expected <resource>=<value>", statement) //nolint:staticcheck // kubectl's words
		}
		amount, err := boundedquantity.Parse(parts[1])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", statement, err)
		}
		list[corev1.ResourceName(parts[0])] = amount
	}
	return list, nil
}

// port reads a number from 1 to 65535.
func checkPort(port int32) error {
	if problems := validation.IsValidPortNum(int(port)); len(problems) > 0 {
		return fmt.Errorf("invalid port %d: %s", port, strings.Join(problems, "; "))
	}
	return nil
}
