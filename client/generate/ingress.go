package generate

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// IngressOptions are the flags of kubectl create ingress. A rule or a default backend is required.
type IngressOptions struct {
	Class string // name of the ingress class
	// Rules are each "host/path=service:port[,tls[=secret]]". A path that ends in * is a prefix; any other must match
	// exactly.
	Rules          []string
	DefaultBackend string   // "service:port"
	Annotations    []string // each "key=value"
}

// Ingress makes what kubectl create ingress NAME makes.
func Ingress(name string, o IngressOptions) (*networkingv1.Ingress, error) {
	if err := checkName("ingress", name, validation.NameIsDNSSubdomain); err != nil {
		return nil, err
	}
	if o.DefaultBackend == "" && len(o.Rules) == 0 {
		return nil, errors.New("not enough information provided: every ingress has to either specify a default-backend (which catches all traffic) or a list of rules (which catch specific paths)")
	}
	rules, err := parseRules(o.Rules)
	if err != nil {
		return nil, err
	}
	annotations, err := Annotations(o.Annotations)
	if err != nil {
		return nil, err
	}
	spec := networkingv1.IngressSpec{Rules: ingressRules(rules), TLS: ingressTLS(rules)}
	if o.Class != "" {
		spec.IngressClassName = &o.Class
	}
	if o.DefaultBackend != "" {
		service, port, found := strings.Cut(o.DefaultBackend, ":")
		if !found || strings.Contains(port, ":") {
			return nil, errors.New("default-backend should be in format servicename:serviceport")
		}
		spec.DefaultBackend = ingressBackend(service, port)
	}
	return &networkingv1.Ingress{
		TypeMeta:   typeMeta(networkingv1.SchemeGroupVersion, "Ingress"),
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations},
		Spec:       spec,
	}, nil
}

// rule is what one flag says.
type rule struct {
	host, path, service, port, secret string
	tls                               bool
}

func parseRules(texts []string) ([]rule, error) {
	syntax := regexp.MustCompile(`^([\w*\-.]*)(/.*)=([\w\-]+):([\w\-]+)(,tls(?:=([\w\-]+)?)?)?$`)
	var rules []rule
	for _, text := range texts {
		m := syntax.FindStringSubmatch(text)
		if m == nil {
			return nil, fmt.Errorf("rule %s is invalid and should be in format host/path=svcname:svcport[,tls[=secret]]", text)
		}
		rules = append(rules, rule{host: m[1], path: m[2], service: m[3], port: m[4], tls: m[5] != "", secret: m[6]})
	}
	return rules, nil
}

// ingressRules gathers the paths of each host.
func ingressRules(rules []rule) []networkingv1.IngressRule {
	var all []networkingv1.IngressRule
	for _, r := range rules {
		kind, path := networkingv1.PathTypeExact, r.path
		if strings.HasSuffix(path, "*") {
			kind, path = networkingv1.PathTypePrefix, path[:len(path)-1]
		}
		at := slices.IndexFunc(all, func(have networkingv1.IngressRule) bool { return have.Host == r.host })
		if at < 0 {
			at = len(all)
			all = append(all, networkingv1.IngressRule{
				Host: r.host, IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{}},
			})
		}
		http := all[at].HTTP
		http.Paths = append(http.Paths, networkingv1.HTTPIngressPath{Path: path, PathType: &kind, Backend: *ingressBackend(r.service, r.port)})
	}
	return all
}

// ingressTLS gathers the hosts of each secret. A host counts once, with its first secret.
func ingressTLS(rules []rule) []networkingv1.IngressTLS {
	var all []networkingv1.IngressTLS
	seen := map[string]bool{}
	for _, r := range rules {
		if !r.tls || seen[r.host] {
			continue
		}
		seen[r.host] = true
		at := slices.IndexFunc(all, func(have networkingv1.IngressTLS) bool { return have.SecretName == r.secret })
		if at >= 0 {
			all[at].Hosts = append(all[at].Hosts, r.host)
			continue
		}
		tls := networkingv1.IngressTLS{SecretName: r.secret}
		if r.host != "" {
			tls.Hosts = []string{r.host}
		}
		if tls.SecretName != "" || len(tls.Hosts) > 0 {
			all = append(all, tls)
		}
	}
	return all
}

func ingressBackend(service, port string) *networkingv1.IngressBackend {
	backend := &networkingv1.IngressServiceBackend{Name: service}
	if value := intstr.Parse(port); value.Type == intstr.Int {
		backend.Port.Number = value.IntVal
	} else {
		backend.Port.Name = value.StrVal
	}
	return &networkingv1.IngressBackend{Service: backend}
}
