package core

import (
	"context"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/podspec"
	"github.com/keelson-dev/keelson/registry"
)

func podTemplates() registry.Kind {
	path := field.NewPath("template")
	parts := registry.Parts[*corev1.PodTemplate]{ // the template plays the part of the spec
		Spec: registry.PartOf(func(t *corev1.PodTemplate) *corev1.PodTemplateSpec { return &t.Template }),
	}
	return registry.Definition[*corev1.PodTemplate]{
		Names:        registry.Names{Kind: "PodTemplate", Plural: "podtemplates", Singular: "podtemplate"},
		GroupVersion: corev1.SchemeGroupVersion,
		Namespaced:   true,
		New:          func() *corev1.PodTemplate { return &corev1.PodTemplate{} },
		NewList:      func() runtime.Object { return &corev1.PodTemplateList{} },
		Rules: registry.Rules[*corev1.PodTemplate]{
			Default: func(t *corev1.PodTemplate) { podspec.Default(&t.Template.Spec) },
			PrepareCreate: func(ctx context.Context, t *corev1.PodTemplate) {
				parts.PrepareCreate(ctx, t)
				podspec.DropTemplate(&t.Template, nil)
			},
			PrepareUpdate: func(ctx context.Context, t, old *corev1.PodTemplate) {
				podspec.DropTemplate(&t.Template, &old.Template)
				parts.PrepareUpdate(ctx, t, old)
			},
			Validate: func(t *corev1.PodTemplate) field.ErrorList {
				return podspec.ValidateTemplate(&t.Template, path, podspec.Options{})
			},
			ValidateUpdate: func(t, old *corev1.PodTemplate) field.ErrorList {
				return podspec.ValidateTemplate(&t.Template, path, podspec.TemplateUpdate(&old.Template))
			},
			Deletion: registry.Deletion[*corev1.PodTemplate]{ReturnsObject: true},
		},
		Columns: podTemplateColumns(),
	}.Kind()
}

func podTemplateColumns() registry.Columns[*corev1.PodTemplate] {
	return registry.Columns[*corev1.PodTemplate]{
		Definitions: []metav1.TableColumnDefinition{
			registry.NameColumn(),
			registry.TextColumn("Containers", "Names of each container in the template."),
			registry.TextColumn("Images", "Images referenced by each container in the template."),
			registry.TextColumn("Pod Labels", "The labels for the pod template."),
		},
		Cells: func(t *corev1.PodTemplate, _ time.Time) []any {
			var names, images []string
			for _, c := range t.Template.Spec.Containers {
				names, images = append(names, c.Name), append(images, c.Image)
			}
			return []any{t.Name, strings.Join(names, ","), strings.Join(images, ","), labels.FormatLabels(t.Template.Labels)}
		},
	}
}
