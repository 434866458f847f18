package apps

import (
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/registry"
)

func daemonSetColumns() registry.Columns[*appsv1.DaemonSet] {
	status := appsv1.DaemonSetStatus{}.SwaggerDoc()
	definitions := []metav1.TableColumnDefinition{
		registry.NameColumn(),
		{Name: "Desired", Type: "integer", Description: status["desiredNumberScheduled"]},
		{Name: "Current", Type: "integer", Description: status["currentNumberScheduled"]},
		{Name: "Ready", Type: "integer", Description: status["numberReady"]},
		{Name: "Up-to-date", Type: "integer", Description: status["updatedNumberScheduled"]},
		{Name: "Available", Type: "integer", Description: status["numberAvailable"]},
		registry.TextColumn("Node Selector", corev1.PodSpec{}.SwaggerDoc()["nodeSelector"]),
		registry.AgeColumn(),
	}
	return registry.Columns[*appsv1.DaemonSet]{
		Definitions: append(definitions, templateColumns(appsv1.DaemonSetSpec{}.SwaggerDoc()["selector"])...),
		Cells: func(d *appsv1.DaemonSet, now time.Time) []any {
			names, images := containers(d.Spec.Template.Spec.Containers)
			return []any{
				d.Name, int64(d.Status.DesiredNumberScheduled), int64(d.Status.CurrentNumberScheduled), int64(d.Status.NumberReady),
				int64(d.Status.UpdatedNumberScheduled), int64(d.Status.NumberAvailable),
				labels.FormatLabels(d.Spec.Template.Spec.NodeSelector), registry.Age(d.CreationTimestamp, now),
				names, images, metav1.FormatLabelSelector(d.Spec.Selector),
			}
		},
	}
}

func deploymentColumns() registry.Columns[*appsv1.Deployment] {
	status := appsv1.DeploymentStatus{}.SwaggerDoc()
	definitions := []metav1.TableColumnDefinition{
		registry.NameColumn(),
		registry.TextColumn("Ready", "Number of the pod with ready state"),
		registry.TextColumn("Up-to-date", status["updatedReplicas"]),
		registry.TextColumn("Available", status["availableReplicas"]),
		registry.AgeColumn(),
	}
	return registry.Columns[*appsv1.Deployment]{
		Definitions: append(definitions, templateColumns(appsv1.DeploymentSpec{}.SwaggerDoc()["selector"])...),
		Cells: func(d *appsv1.Deployment, now time.Time) []any {
			selector := "<invalid>"
			if s, err := metav1.LabelSelectorAsSelector(d.Spec.Selector); err == nil {
				selector = s.String()
			}
			names, images := containers(d.Spec.Template.Spec.Containers)
			return []any{
				d.Name, fmt.Sprintf("%d/%d", d.Status.ReadyReplicas, replicas(d.Spec.Replicas)),
				int64(d.Status.UpdatedReplicas), int64(d.Status.AvailableReplicas),
				registry.Age(d.CreationTimestamp, now), names, images, selector,
			}
		},
	}
}

func replicaSetColumns() registry.Columns[*appsv1.ReplicaSet] {
	status := appsv1.ReplicaSetStatus{}.SwaggerDoc()
	definitions := []metav1.TableColumnDefinition{
		registry.NameColumn(),
		{Name: "Desired", Type: "integer", Description: appsv1.ReplicaSetSpec{}.SwaggerDoc()["replicas"]},
		{Name: "Current", Type: "integer", Description: status["replicas"]},
		{Name: "Ready", Type: "integer", Description: status["readyReplicas"]},
		registry.AgeColumn(),
	}
	return registry.Columns[*appsv1.ReplicaSet]{
		Definitions: append(definitions, templateColumns(appsv1.ReplicaSetSpec{}.SwaggerDoc()["selector"])...),
		Cells: func(rs *appsv1.ReplicaSet, now time.Time) []any {
			names, images := containers(rs.Spec.Template.Spec.Containers)
			return []any{
				rs.Name, int64(replicas(rs.Spec.Replicas)), int64(rs.Status.Replicas), int64(rs.Status.ReadyReplicas),
				registry.Age(rs.CreationTimestamp, now), names, images, metav1.FormatLabelSelector(rs.Spec.Selector),
			}
		},
	}
}

func statefulSetColumns() registry.Columns[*appsv1.StatefulSet] {
	return registry.Columns[*appsv1.StatefulSet]{
		Definitions: []metav1.TableColumnDefinition{
			registry.NameColumn(),
			registry.TextColumn("Ready", "Number of the pod with ready state"),
			registry.AgeColumn(),
			registry.WideColumn("Containers", "Names of each container in the template."),
			registry.WideColumn("Images", "Images referenced by each container in the template."),
		},
		Cells: func(s *appsv1.StatefulSet, now time.Time) []any {
			names, images := containers(s.Spec.Template.Spec.Containers)
			return []any{
				s.Name, fmt.Sprintf("%d/%d", s.Status.ReadyReplicas, replicas(s.Spec.Replicas)),
				registry.Age(s.CreationTimestamp, now), names, images,
			}
		},
	}
}

func revisionColumns() registry.Columns[*appsv1.ControllerRevision] {
	return registry.Columns[*appsv1.ControllerRevision]{
		Definitions: []metav1.TableColumnDefinition{
			registry.NameColumn(),
			registry.TextColumn("Controller", "Controller of the object"),
			registry.TextColumn("Revision", appsv1.ControllerRevision{}.SwaggerDoc()["revision"]),
			registry.AgeColumn(),
		},
		Cells: func(r *appsv1.ControllerRevision, now time.Time) []any {
			controller := "<none>"
			if owner := metav1.GetControllerOfNoCopy(r); owner != nil {
				controller = owner.Name
				if kind := schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).GroupKind(); !kind.Empty() {
					controller = strings.ToLower(kind.String()) + "/" + owner.Name
				}
			}
			return []any{r.Name, controller, r.Revision, registry.Age(r.CreationTimestamp, now)}
		},
	}
}

// templateColumns returns the columns of kinds that make pods from a template.
func templateColumns(selector string) []metav1.TableColumnDefinition {
	return []metav1.TableColumnDefinition{
		registry.WideColumn("Containers", "Names of each container in the template."),
		registry.WideColumn("Images", "Images referenced by each container in the template."),
		registry.WideColumn("Selector", selector),
	}
}

func containers(list []corev1.Container) (names, images string) {
	n, i := make([]string, len(list)), make([]string, len(list))
	for at := range list {
		n[at], i[at] = list[at].Name, list[at].Image
	}
	return strings.Join(n, ","), strings.Join(i, ",")
}

func replicas(n *int32) int32 {
	if n == nil {
		return 0
	}
	return *n
}
