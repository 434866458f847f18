package core

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/registry"
)

func resourceQuotas() registry.Kind {
	parts := registry.Parts[*corev1.ResourceQuota]{
		Spec:      registry.PartOf(func(q *corev1.ResourceQuota) *corev1.ResourceQuotaSpec { return &q.Spec }),
		Status:    registry.PartOf(func(q *corev1.ResourceQuota) *corev1.ResourceQuotaStatus { return &q.Status }),
		Uncounted: true,
	}
	return registry.Definition[*corev1.ResourceQuota]{
		Names: registry.Names{
			Kind: "ResourceQuota", Plural: "resourcequotas", Singular: "resourcequota", Short: []string{"quota"},
		},
		GroupVersion: corev1.SchemeGroupVersion,
		Namespaced:   true,
		New:          func() *corev1.ResourceQuota { return &corev1.ResourceQuota{} },
		NewList:      func() runtime.Object { return &corev1.ResourceQuotaList{} },
		Rules: registry.Rules[*corev1.ResourceQuota]{
			Default: func(q *corev1.ResourceQuota) {
				roundUp(q.Spec.Hard)
				roundUp(q.Status.Hard)
				roundUp(q.Status.Used)
			},
			PrepareCreate: func(ctx context.Context, q *corev1.ResourceQuota) {
				parts.PrepareCreate(ctx, q)
				warnQuota(ctx, q.Spec.Hard)
			},
			PrepareUpdate: parts.PrepareUpdate,
			Validate: func(q *corev1.ResourceQuota) field.ErrorList {
				return validateQuotaSpec(&q.Spec, field.NewPath("spec"))
			},
			ValidateUpdate: func(q, old *corev1.ResourceQuota) field.ErrorList {
				return append(validateQuotaSpec(&q.Spec, field.NewPath("spec")), validateQuotaChange(q, old)...)
			},
			Deletion: registry.Deletion[*corev1.ResourceQuota]{ReturnsObject: true},
		},
		Sub: registry.Subresources[*corev1.ResourceQuota]{Views: map[string]registry.View[*corev1.ResourceQuota]{"status": {
			PrepareUpdate:  parts.PrepareStatus,
			ValidateUpdate: validateQuotaStatusUpdate,
		}}},
		Columns: quotaColumns(),
	}.Kind()
}

// warnQuota warns of limits below the corresponding requests.
func warnQuota(ctx context.Context, hard corev1.ResourceList) {
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceStorage, corev1.ResourceEphemeralStorage} {
		requests, limits := "requests."+name, "limits."+name
		request, requested := hard[requests]
		if !requested && (name == corev1.ResourceCPU || name == corev1.ResourceMemory) {
			if request, requested = hard[name]; requested {
				requests = name
			}
		}
		limit, limited := hard[limits]
		if requested && limited && request.Cmp(limit) > 0 {
			registry.Warn(ctx, fmt.Sprintf("ResourceQuota %s (%s) should be less than %s (%s)", requests, request.String(), limits, limit.String()))
		}
	}
}

func quotaColumns() registry.Columns[*corev1.ResourceQuota] {
	return registry.Columns[*corev1.ResourceQuota]{
		Definitions: []metav1.TableColumnDefinition{
			registry.NameColumn(),
			registry.TextColumn("Request", "Request represents a minimum amount of cpu/memory that a container may consume."),
			registry.TextColumn("Limit", "Limits control the maximum amount of cpu/memory that a container may use independent of contention on the node."),
			registry.AgeColumn(),
		},
		Cells: func(q *corev1.ResourceQuota, now time.Time) []any {
			var requests, limits []string
			for _, name := range sortedNames(q.Status.Hard) {
				used, hard := q.Status.Used[name], q.Status.Hard[name]
				cell := fmt.Sprintf("%s: %s/%s", name, used.String(), hard.String())
				if strings.HasPrefix(string(name), "limits.") {
					limits = append(limits, cell)
				} else {
					requests = append(requests, cell)
				}
			}
			return []any{q.Name, strings.Join(requests, ", "), strings.Join(limits, ", "), registry.Age(q.CreationTimestamp, now)}
		},
	}
}

func sortedNames(list corev1.ResourceList) []corev1.ResourceName {
	names := make([]corev1.ResourceName, 0, len(list))
	for name := range list {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
