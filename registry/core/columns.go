package core

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/keelson-dev/keelson/registry"
)

func configMapColumns() registry.Columns[*corev1.ConfigMap] {
	return registry.Columns[*corev1.ConfigMap]{
		Definitions: []metav1.TableColumnDefinition{
			registry.NameColumn(),
			registry.TextColumn("Data", corev1.ConfigMap{}.SwaggerDoc()["data"]),
			registry.AgeColumn(),
		},
		Cells: func(c *corev1.ConfigMap, now time.Time) []any {
			return []any{c.Name, int64(len(c.Data) + len(c.BinaryData)), registry.Age(c.CreationTimestamp, now)}
		},
	}
}

func secretColumns() registry.Columns[*corev1.Secret] {
	return registry.Columns[*corev1.Secret]{
		Definitions: []metav1.TableColumnDefinition{
			registry.NameColumn(),
			registry.TextColumn("Type", corev1.Secret{}.SwaggerDoc()["type"]),
			registry.TextColumn("Data", corev1.Secret{}.SwaggerDoc()["data"]),
			registry.AgeColumn(),
		},
		Cells: func(s *corev1.Secret, now time.Time) []any {
			return []any{s.Name, string(s.Type), int64(len(s.Data)), registry.Age(s.CreationTimestamp, now)}
		},
	}
}

func serviceAccountColumns() registry.Columns[*corev1.ServiceAccount] {
	return registry.Columns[*corev1.ServiceAccount]{
		Definitions: []metav1.TableColumnDefinition{registry.NameColumn(), registry.AgeColumn()},
		Cells: func(a *corev1.ServiceAccount, now time.Time) []any {
			return []any{a.Name, registry.Age(a.CreationTimestamp, now)}
		},
	}
}

func namespaceColumns() registry.Columns[*corev1.Namespace] {
	return registry.Columns[*corev1.Namespace]{
		Definitions: []metav1.TableColumnDefinition{
			registry.NameColumn(),
			registry.TextColumn("Status", "The status of the namespace"),
			registry.AgeColumn(),
		},
		Cells: func(n *corev1.Namespace, now time.Time) []any {
			return []any{n.Name, string(n.Status.Phase), registry.Age(n.CreationTimestamp, now)}
		},
	}
}

func endpointsColumns() registry.Columns[*corev1.Endpoints] {
	return registry.Columns[*corev1.Endpoints]{
		Definitions: []metav1.TableColumnDefinition{
			registry.NameColumn(),
			registry.TextColumn("Endpoints", corev1.Endpoints{}.SwaggerDoc()["subsets"]),
			registry.AgeColumn(),
		},
		Cells: func(e *corev1.Endpoints, now time.Time) []any {
			return []any{e.Name, endpointList(e.Subsets), registry.Age(e.CreationTimestamp, now)}
		},
	}
}

// endpointList returns the first three addresses with their ports, and the number of the others.
func endpointList(subsets []corev1.EndpointSubset) string {
	const most = 3
	if len(subsets) == 0 {
		return "<none>"
	}
	var shown []string
	all := 0
	show := func(addresses []corev1.EndpointAddress, form func(ip string) string) {
		all += len(addresses)
		for _, a := range addresses[:min(len(addresses), most-len(shown))] {
			shown = append(shown, form(a.IP))
		}
	}
	for _, s := range subsets {
		if len(s.Ports) == 0 { // a headless service may have none
			show(s.Addresses, func(ip string) string { return ip })
		}
		for _, p := range s.Ports {
			show(s.Addresses, func(ip string) string { return net.JoinHostPort(ip, strconv.Itoa(int(p.Port))) })
		}
	}
	list := strings.Join(shown, ",")
	if all > most {
		return fmt.Sprintf("%s + %d more...", list, all-most)
	}
	return list
}

func eventColumns() registry.Columns[*corev1.Event] {
	doc := corev1.Event{}.SwaggerDoc()
	name := registry.NameColumn()
	name.Priority = 1
	return registry.Columns[*corev1.Event]{
		Definitions: []metav1.TableColumnDefinition{
			registry.TextColumn("Last Seen", doc["lastTimestamp"]),
			registry.TextColumn("Type", doc["type"]),
			registry.TextColumn("Reason", doc["reason"]),
			registry.TextColumn("Object", doc["involvedObject"]),
			registry.WideColumn("Subobject", corev1.ObjectReference{}.SwaggerDoc()["fieldPath"]),
			registry.WideColumn("Source", doc["source"]),
			registry.TextColumn("Message", doc["message"]),
			registry.WideColumn("First Seen", doc["firstTimestamp"]),
			registry.WideColumn("Count", doc["count"]),
			name,
		},
		Cells: eventCells,
	}
}

func eventCells(e *corev1.Event, now time.Time) []any {
	first := registry.Age(e.FirstTimestamp, now)
	if e.FirstTimestamp.IsZero() {
		first = registry.Age(metav1.Time(e.EventTime), now)
	}
	last := registry.Age(e.LastTimestamp, now)
	if e.LastTimestamp.IsZero() {
		last = first
	}
	count := e.Count
	if e.Series != nil {
		last, count = registry.Age(metav1.Time(e.Series.LastObservedTime), now), e.Series.Count
	} else if count == 0 {
		count = 1 // events.k8s.io does not count a single occurrence
	}
	object := strings.ToLower(e.InvolvedObject.Kind)
	if e.InvolvedObject.Name != "" {
		object += "/" + e.InvolvedObject.Name
	}
	source := cmp.Or(e.Source.Component, e.ReportingController)
	if host := cmp.Or(e.Source.Host, e.ReportingInstance); host != "" {
		source += ", " + host
	}
	return []any{
		last, e.Type, e.Reason, object, e.InvolvedObject.FieldPath, source, strings.TrimSpace(e.Message),
		first, int64(count), e.Name,
	}
}

func serviceColumns() registry.Columns[*corev1.Service] {
	doc := corev1.ServiceSpec{}.SwaggerDoc()
	return registry.Columns[*corev1.Service]{
		Definitions: []metav1.TableColumnDefinition{
			registry.NameColumn(),
			registry.TextColumn("Type", doc["type"]),
			registry.TextColumn("Cluster-IP", doc["clusterIP"]),
			registry.TextColumn("External-IP", doc["externalIPs"]),
			registry.TextColumn("Port(s)", doc["ports"]),
			registry.AgeColumn(),
			registry.WideColumn("Selector", doc["selector"]),
		},
		Cells: func(s *corev1.Service, now time.Time) []any {
			ip := "<none>"
			if len(s.Spec.ClusterIPs) > 0 {
				ip = s.Spec.ClusterIPs[0]
			}
			return []any{
				s.Name, string(s.Spec.Type), ip, externalIP(s), cmp.Or(portList(s.Spec.Ports), "<none>"),
				registry.Age(s.CreationTimestamp, now), labels.FormatLabels(s.Spec.Selector),
			}
		},
	}
}

func externalIP(s *corev1.Service) string {
	switch s.Spec.Type {
	case corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort:
		if len(s.Spec.ExternalIPs) == 0 {
			return "<none>"
		}
		return strings.Join(s.Spec.ExternalIPs, ",")
	case corev1.ServiceTypeLoadBalancer:
		var points []string
		for _, ingress := range s.Status.LoadBalancer.Ingress {
			if point := cmp.Or(ingress.IP, ingress.Hostname); point != "" {
				points = append(points, point)
			}
		}
		slices.Sort(points)
		points = append(slices.Compact(points), s.Spec.ExternalIPs...)
		if len(points) == 0 {
			return "<pending>"
		}
		return strings.Join(points, ",")
	case corev1.ServiceTypeExternalName:
		return s.Spec.ExternalName
	}
	return "<unknown>"
}

func portList(ports []corev1.ServicePort) string {
	list := make([]string, len(ports))
	for i, p := range ports {
		list[i] = fmt.Sprintf("%d/%s", p.Port, p.Protocol)
		if p.NodePort > 0 {
			list[i] = fmt.Sprintf("%d:%d/%s", p.Port, p.NodePort, p.Protocol)
		}
	}
	return strings.Join(list, ",")
}

func nodeColumns() registry.Columns[*corev1.Node] {
	doc, addresses := corev1.NodeSystemInfo{}.SwaggerDoc(), corev1.NodeStatus{}.SwaggerDoc()["addresses"]
	return registry.Columns[*corev1.Node]{
		Definitions: []metav1.TableColumnDefinition{
			registry.NameColumn(),
			registry.TextColumn("Status", "The status of the node"),
			registry.TextColumn("Roles", "The roles of the node"),
			registry.AgeColumn(),
			registry.TextColumn("Version", doc["kubeletVersion"]),
			registry.WideColumn("Internal-IP", addresses),
			registry.WideColumn("External-IP", addresses),
			registry.WideColumn("OS-Image", doc["osImage"]),
			registry.WideColumn("Kernel-Version", doc["kernelVersion"]),
			registry.WideColumn("Container-Runtime", doc["containerRuntimeVersion"]),
		},
		Cells: func(n *corev1.Node, now time.Time) []any {
			const unknown = "<unknown>"
			info := &n.Status.NodeInfo
			kernel := cmp.Or(info.KernelVersion, unknown)
			if info.Architecture != "" {
				kernel += " (" + info.Architecture + ")"
			}
			return []any{
				n.Name, nodeState(n), nodeRoles(n), registry.Age(n.CreationTimestamp, now), info.KubeletVersion,
				nodeAddress(n, corev1.NodeInternalIP), nodeAddress(n, corev1.NodeExternalIP),
				cmp.Or(info.OSImage, unknown), kernel, cmp.Or(info.ContainerRuntimeVersion, unknown),
			}
		},
	}
}

func nodeState(n *corev1.Node) string {
	state := "Unknown"
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			state = "NotReady"
			if c.Status == corev1.ConditionTrue {
				state = "Ready"
			}
		}
	}
	if n.Spec.Unschedulable {
		state += ",SchedulingDisabled"
	}
	return state
}

// nodeRoles reads the labels node-role.kubernetes.io/ROLE and kubernetes.io/role=ROLE.
func nodeRoles(n *corev1.Node) string {
	var roles []string
	for key, value := range n.Labels {
		role, found := strings.CutPrefix(key, "node-role.kubernetes.io/")
		if !found && key == "kubernetes.io/role" {
			role, found = value, true
		}
		if found && role != "" {
			roles = append(roles, role)
		}
	}
	slices.Sort(roles)
	return cmp.Or(strings.Join(slices.Compact(roles), ","), "<none>")
}

func nodeAddress(n *corev1.Node, of corev1.NodeAddressType) string {
	for _, a := range n.Status.Addresses {
		if a.Type == of {
			return a.Address
		}
	}
	return "<none>"
}
