package generate

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	content "k8s.io/apimachinery/pkg/util/validation"
)

// ExposeOptions are the flags of kubectl expose. Empty values are taken from the exposed object.
type ExposeOptions struct {
	Name       string // of the Service
	Port       string // of the Service: a number, or several with commas between
	TargetPort string // of the pods: a number or a name; the Service's when empty
	Protocol   string // TCP, UDP or SCTP, for all ports
	Selector   string // of the pods: "app=web"
	Labels     string // of the Service

	Type            string // ClusterIP, NodePort, LoadBalancer or ExternalName
	ClusterIP       string // "None" for a headless service
	ExternalIP      string // an address outside the cluster
	LoadBalancerIP  string // with type LoadBalancer
	SessionAffinity string // None or ClientIP
}

// Expose makes the Service that kubectl expose makes for a Pod, Service, Deployment, ReplicaSet or
// ReplicationController. The object is not changed.
func Expose(obj runtime.Object, o ExposeOptions) (*corev1.Service, error) {
	from, err := exposed(obj)
	if err != nil {
		return nil, err
	}
	name := o.Name
	if name == "" {
		name = from.name[:min(len(from.name), content.DNS1035LabelMaxLength)]
	}
	if err := checkName("service", name, validation.NameIsDNSLabel); err != nil {
		return nil, err
	}
	selector, labels, err := o.labels(from)
	if err != nil {
		return nil, err
	}
	ports, err := o.ports(from.ports)
	if err != nil {
		return nil, err
	}
	service := &corev1.Service{
		TypeMeta:   typeMeta(corev1.SchemeGroupVersion, "Service"),
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec:       corev1.ServiceSpec{Selector: selector, Ports: ports, Type: corev1.ServiceType(o.Type), ClusterIP: o.ClusterIP},
	}
	if o.ExternalIP != "" {
		service.Spec.ExternalIPs = []string{o.ExternalIP}
	}
	if service.Spec.Type == corev1.ServiceTypeLoadBalancer {
		service.Spec.LoadBalancerIP = o.LoadBalancerIP
	}
	switch affinity := corev1.ServiceAffinity(o.SessionAffinity); affinity {
	case "", corev1.ServiceAffinityNone, corev1.ServiceAffinityClientIP:
		service.Spec.SessionAffinity = affinity
	default:
		return nil, fmt.Errorf("unknown session affinity: %s", affinity)
	}
	return service, nil
}

// labels are the selector and the labels of the service.
func (o ExposeOptions) labels(from subject) (selector, labels map[string]string, err error) {
	selector, labels = maps.Clone(from.selector), maps.Clone(from.labels)
	switch {
	case o.Selector != "":
		if selector, err = Labels(o.Selector); err != nil {
			return nil, nil, err
		}
	case from.noSelector != nil:
		return nil, nil, fmt.Errorf("couldn't retrieve selectors via --selector flag or introspection: %w", from.noSelector)
	case len(selector) == 0:
		return nil, nil, fmt.Errorf("selector must be specified")
	}
	if o.Labels != "" {
		if labels, err = Labels(o.Labels); err != nil {
			return nil, nil, err
		}
	}
	return selector, labels, nil
}

// ports are those of the flag, or else those of the object. Without a protocol in the flag, a port has the object's; if
// the object has several for it, each becomes a port.
func (o ExposeOptions) ports(have []corev1.ServicePort) ([]corev1.ServicePort, error) {
	protocols := map[string][]corev1.Protocol{}
	var numbers []string
	for _, p := range have {
		number := strconv.Itoa(int(p.Port))
		if protocols[number] == nil {
			numbers = append(numbers, number)
		}
		protocols[number] = append(protocols[number], p.Protocol)
	}
	if o.Port != "" {
		numbers = strings.Split(o.Port, ",")
	} else if len(numbers) == 0 && o.ClusterIP != corev1.ClusterIPNone {
		return nil, fmt.Errorf("couldn't find port via --port flag or introspection")
	}
	var ports []corev1.ServicePort
	for i, text := range numbers {
		number, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("invalid port %q: %w", text, err)
		}
		port := corev1.ServicePort{Port: int32(number), TargetPort: intstr.FromInt32(int32(number))}
		if o.TargetPort != "" {
			port.TargetPort = intstr.Parse(o.TargetPort)
		}
		if len(numbers) > 1 {
			port.Name = fmt.Sprintf("port-%d", i+1)
		}
		wanted := protocols[text]
		switch {
		case o.Protocol != "":
			wanted = []corev1.Protocol{corev1.Protocol(o.Protocol)}
		case len(wanted) == 0:
			wanted = []corev1.Protocol{corev1.ProtocolTCP}
		}
		for _, p := range wanted {
			one := port
			if one.Protocol = p; len(wanted) > 1 {
				one.Name = fmt.Sprintf("port-%d-%s", i+1, strings.ToLower(string(p)))
			}
			ports = append(ports, one)
		}
	}
	return ports, nil
}

// subject is what an object implies for its service.
type subject struct {
	name             string
	labels, selector map[string]string
	noSelector       error                // why there is none
	ports            []corev1.ServicePort // number and protocol
}

func exposed(obj runtime.Object) (subject, error) {
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return subject{}, fmt.Errorf("expose: %w", err)
	}
	s := subject{name: accessor.GetName(), labels: accessor.GetLabels()}
	switch o := obj.(type) {
	case *corev1.Pod:
		s.selector, s.ports = o.Labels, containerPorts(o.Spec)
		if len(s.selector) == 0 {
			s.noSelector = errors.New("the pod has no labels and cannot be exposed")
		}
	case *corev1.Service:
		s.selector = o.Spec.Selector
		if s.selector == nil {
			s.noSelector = errors.New("the service has no pod selector set")
		}
		for _, p := range o.Spec.Ports {
			s.ports = append(s.ports, corev1.ServicePort{Port: p.Port, Protocol: protocol(p.Protocol)})
		}
	case *corev1.ReplicationController:
		s.selector = o.Spec.Selector
		if o.Spec.Template != nil {
			s.ports = containerPorts(o.Spec.Template.Spec)
		}
	case *appsv1.Deployment:
		s.ports = containerPorts(o.Spec.Template.Spec)
		s.selector, s.noSelector = mapSelector("deployment", o.Spec.Selector)
	case *appsv1.ReplicaSet:
		s.ports = containerPorts(o.Spec.Template.Spec)
		s.selector, s.noSelector = mapSelector("replicaset", o.Spec.Selector)
	default:
		return subject{}, fmt.Errorf("cannot expose a %s", kindOf(obj))
	}
	return s, nil
}

// kindOf is the kind as kubectl writes it.
func kindOf(obj runtime.Object) string {
	gvk := obj.GetObjectKind().GroupVersionKind()
	if gvk.Kind == "" {
		return fmt.Sprintf("%T", obj)
	}
	return gvk.GroupKind().String()
}

// mapSelector is a selector as services have them: pairs of keys and values, no expressions.
func mapSelector(kind string, s *metav1.LabelSelector) (map[string]string, error) {
	if s == nil || len(s.MatchLabels) == 0 {
		return nil, fmt.Errorf("invalid %s: no selectors, therefore cannot be exposed", kind)
	}
	if len(s.MatchExpressions) > 0 {
		return nil, fmt.Errorf("couldn't convert expressions - \"%+v\" to map-based selector format", s.MatchExpressions)
	}
	return s.MatchLabels, nil
}

func containerPorts(spec corev1.PodSpec) []corev1.ServicePort {
	var ports []corev1.ServicePort
	for _, c := range spec.Containers {
		for _, p := range c.Ports {
			ports = append(ports, corev1.ServicePort{Port: p.ContainerPort, Protocol: protocol(p.Protocol)})
		}
	}
	return ports
}

func protocol(p corev1.Protocol) corev1.Protocol {
	if p == "" {
		return corev1.ProtocolTCP
	}
	return p
}
