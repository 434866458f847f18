package apiextensions

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/registry"
)

func columns() registry.Columns[*apiextensionsv1.CustomResourceDefinition] {
	return registry.Columns[*apiextensionsv1.CustomResourceDefinition]{
		Definitions: []metav1.TableColumnDefinition{
			registry.NameColumn(),
			registry.TextColumn("Scope", "Cluster/Namespaced"),
			registry.TextColumn("Versions", "Served versions"),
			{Name: "Created At", Type: "date", Description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"]},
			registry.WideColumn("Group", "API group"),
			registry.WideColumn("Kind", "CustomResource kind"),
			registry.WideColumn("ShortNames", "Short names"),
			{Name: "Established", Type: "boolean", Priority: 1, Description: "Established status"},
		},
		Cells: func(crd *apiextensionsv1.CustomResourceDefinition, _ time.Time) []any {
			return []any{
				crd.Name, string(crd.Spec.Scope), servedVersions(crd), crd.CreationTimestamp.UTC().Format(time.RFC3339),
				crd.Spec.Group, crd.Spec.Names.Kind, strings.Join(crd.Spec.Names.ShortNames, ","),
				apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established),
			}
		},
	}
}

func servedVersions(crd *apiextensionsv1.CustomResourceDefinition) string {
	var served []string
	for _, v := range crd.Spec.Versions {
		switch {
		case v.Served && v.Storage:
			served = append(served, v.Name+"(storage)")
		case v.Served:
			served = append(served, v.Name)
		}
	}
	slices.Sort(served)
	return strings.Join(served, ",")
}
