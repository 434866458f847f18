package main

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	secretsName = "secrets.example.com"
	shortest    = 8 // of a value, in bytes

	sidecarName  = "sidecar.example.com"
	sidecarLabel = "sidecar.example.com/inject"
)

// longEnough rejects secrets with a value that is too short.
func longEnough(s *corev1.Secret) *metav1.Status {
	var errs field.ErrorList
	for key, value := range s.Data {
		if len(value) < shortest {
			errs = append(errs, field.Invalid(field.NewPath("data").Key(key), "", fmt.Sprintf("must have at least %d bytes", shortest)))
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return new(apierrors.NewInvalid(schema.GroupKind{Kind: "Secret"}, s.Name, errs).ErrStatus)
}

// withSidecar gives a proxy to pods that ask for one by a label. It starts before their containers and ends after them.
func withSidecar(p *corev1.Pod) *metav1.Status {
	if p.Labels[sidecarLabel] != "true" || slices.ContainsFunc(p.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == "proxy" }) {
		return nil
	}
	p.Spec.InitContainers = slices.Insert(p.Spec.InitContainers, 0, corev1.Container{
		Name: "proxy", Image: "registry.example.com/proxy:1", RestartPolicy: new(corev1.ContainerRestartPolicyAlways),
		Ports: []corev1.ContainerPort{{Name: "proxy", ContainerPort: 15001}},
	})
	return nil
}
