package generate

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	content "k8s.io/apimachinery/pkg/util/validation"
	netutils "k8s.io/utils/net"
)

// ServiceOptions are the flags of kubectl create service and its commands.
type ServiceOptions struct {
	Type         corev1.ServiceType // the command: ClusterIP when empty
	TCP          []string           // ports, each "PORT" or "PORT:TARGET"; required but for headless and external names
	ClusterIP    string             // "None" for a headless service; only with type ClusterIP
	NodePort     int32              // of every port; with type NodePort
	ExternalName string             // required with type ExternalName
}

// Service makes what kubectl create service TYPE NAME makes: it selects pods by app=NAME.
func Service(name string, o ServiceOptions) (*corev1.Service, error) {
	if err := checkName("service", name, validation.NameIsDNSLabel); err != nil {
		return nil, err
	}
	if o.Type == "" {
		o.Type = corev1.ServiceTypeClusterIP
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	var ports []corev1.ServicePort
	for _, text := range o.TCP {
		port, target, err := tcpPort(text)
		if err != nil {
			return nil, err
		}
		ports = append(ports, corev1.ServicePort{
			Name: strings.ReplaceAll(text, ":", "-"), Port: port, TargetPort: target, Protocol: corev1.ProtocolTCP, NodePort: o.NodePort,
		})
	}
	return &corev1.Service{
		TypeMeta:   typeMeta(corev1.SchemeGroupVersion, "Service"),
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}},
		Spec: corev1.ServiceSpec{
			Type: o.Type, Selector: map[string]string{"app": name}, Ports: ports,
			ClusterIP: o.ClusterIP, ExternalName: o.ExternalName,
		},
	}, nil
}

func (o ServiceOptions) check() error {
	switch o.Type {
	case corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeExternalName:
	default:
		return fmt.Errorf("unknown service type %q: choose ClusterIP, NodePort, LoadBalancer or ExternalName", o.Type)
	}
	if o.ClusterIP == corev1.ClusterIPNone && o.Type != corev1.ServiceTypeClusterIP {
		return errors.New("ClusterIP=None can only be used with ClusterIP service type")
	}
	if o.ClusterIP != corev1.ClusterIPNone && len(o.TCP) == 0 && o.Type != corev1.ServiceTypeExternalName {
		return errors.New("at least one tcp port specifier must be provided")
	}
	if o.Type == corev1.ServiceTypeExternalName && len(content.IsDNS1123Subdomain(o.ExternalName)) > 0 {
		return fmt.Errorf("invalid service external name %s", o.ExternalName)
	}
	return nil
}

func tcpPort(text string) (port int32, target intstr.IntOrString, err error) {
	parts := strings.Split(text, ":")
	number, err := netutils.ParsePort(parts[0], true)
	if err != nil {
		return 0, target, err
	}
	port = int32(number)
	if len(parts) == 1 {
		return port, intstr.FromInt32(port), nil
	}
	var problems []string
	if n, err := strconv.Atoi(parts[1]); err != nil {
		target, problems = intstr.FromString(parts[1]), content.IsValidPortName(parts[1])
	} else {
		target, problems = intstr.FromInt32(int32(n)), content.IsValidPortNum(n)
	}
	if len(problems) > 0 {
		return 0, target, errors.New(strings.Join(problems, ","))
	}
	return port, target, nil
}
