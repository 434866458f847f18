package environment

import (
	"cmp"
	"net"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/cri"
)

// ServiceVariables returns the variables with the addresses of services for pods of a namespace: with links, of all
// services in the namespace, and always of kubernetes in the namespace default. Services without a cluster IP are left
// out. The variables are in the order of the services' names.
func ServiceVariables(services []*corev1.Service, namespace string, links bool) []cri.EnvVar {
	byName := map[string]*corev1.Service{}
	for _, s := range services {
		if s.Spec.ClusterIP == "" || s.Spec.ClusterIP == corev1.ClusterIPNone || len(s.Spec.Ports) == 0 {
			continue
		}
		switch {
		case s.Namespace == corev1.NamespaceDefault && s.Name == "kubernetes":
			if _, taken := byName[s.Name]; !taken {
				byName[s.Name] = s
			}
		case s.Namespace == namespace && links:
			byName[s.Name] = s
		}
	}
	list := make([]*corev1.Service, 0, len(byName))
	for _, s := range byName {
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b *corev1.Service) int { return cmp.Compare(a.Name, b.Name) })
	var env []cri.EnvVar
	for _, s := range list {
		env = append(env, variablesOf(s)...)
	}
	return env
}

func variablesOf(s *corev1.Service) []cri.EnvVar {
	prefix, ip := variableName(s.Name), s.Spec.ClusterIP
	env := []cri.EnvVar{
		{Name: prefix + "_SERVICE_HOST", Value: ip},
		{Name: prefix + "_SERVICE_PORT", Value: strconv.Itoa(int(s.Spec.Ports[0].Port))},
	}
	for _, p := range s.Spec.Ports {
		if p.Name != "" {
			env = append(env, cri.EnvVar{Name: prefix + "_SERVICE_PORT_" + variableName(p.Name), Value: strconv.Itoa(int(p.Port))})
		}
	}
	for i, p := range s.Spec.Ports {
		protocol, port := strings.ToLower(string(cmp.Or(p.Protocol, corev1.ProtocolTCP))), strconv.Itoa(int(p.Port))
		url := protocol + "://" + net.JoinHostPort(ip, port)
		if i == 0 {
			env = append(env, cri.EnvVar{Name: prefix + "_PORT", Value: url})
		}
		of := prefix + "_PORT_" + port + "_" + strings.ToUpper(protocol)
		env = append(env,
			cri.EnvVar{Name: of, Value: url},
			cri.EnvVar{Name: of + "_PROTO", Value: protocol},
			cri.EnvVar{Name: of + "_PORT", Value: port},
			cri.EnvVar{Name: of + "_ADDR", Value: ip})
	}
	return env
}

func variableName(name string) string {
	return strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}
