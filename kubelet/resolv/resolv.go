package resolv

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/kubelet"
)

// Limits of a pod's resolv.conf.
const (
	MaxServers       = 3
	MaxSearches      = 32
	MaxSearchesChars = 2048
	// maxDomain is the maximum length of a search domain: glibc aborts on longer ones.
	maxDomain = 253
)

// Reasons of the events that warnings become; a warning is the reason, ": " and the message.
const (
	ReasonDNSConfigForming  = "DNSConfigForming"
	ReasonMissingClusterDNS = "MissingClusterDNS"
)

// Options configures New. The zero value is a node without cluster DNS and without a resolv.conf, whose pods query the
// local machine.
type Options struct {
	// Servers are the addresses of the cluster's DNS.
	Servers []netip.Addr
	// Domain is the cluster's domain, such as "cluster.local".
	Domain string
	// File is the resolv.conf that pods inherit; empty is none.
	File string
	// NodeIPs are the node's addresses, whose families pods without a resolv.conf use.
	NodeIPs []netip.Addr
}

// Resolver computes the resolv.conf of pods. Make one with New.
type Resolver struct{ options Options }

var _ kubelet.Resolver = (*Resolver)(nil)

// New makes a Resolver. It does not read the file.
func New(o Options) *Resolver {
	o.Servers, o.NodeIPs = slices.Clone(o.Servers), slices.Clone(o.NodeIPs)
	return &Resolver{o}
}

// Resolve implements kubelet.Resolver.
func (r *Resolver) Resolve(pod *corev1.Pod) (dns cri.DNS, warnings []string, err error) {
	node, err := r.node()
	if err != nil {
		return cri.DNS{}, nil, err
	}
	switch policy := effectivePolicy(pod); {
	case policy == corev1.DNSNone:
	case policy == corev1.DNSClusterFirst && len(r.options.Servers) > 0:
		for _, ip := range r.options.Servers {
			dns.Servers = append(dns.Servers, ip.String())
		}
		dns.Searches = r.clusterSearches(pod.Namespace, node.Searches)
		dns.Options = []string{"ndots:5"}
	default:
		if policy == corev1.DNSClusterFirst {
			warnings = append(warnings, ReasonMissingClusterDNS+": "+missingClusterDNS(pod))
		}
		dns = node
		if r.options.File == "" {
			dns = r.local()
		}
	}
	if c := pod.Spec.DNSConfig; c != nil {
		dns.Servers = unique(append(dns.Servers, c.Nameservers...))
		dns.Searches = unique(append(dns.Searches, c.Searches...))
		for _, o := range c.Options {
			option := o.Name
			if o.Value != nil && *o.Value != "" {
				option += ":" + *o.Value
			}
			dns.Options = mergeOptions(dns.Options, []string{option})
		}
	}
	dns, exceeded := fit(dns)
	return dns, append(warnings, exceeded...), nil
}

func missingClusterDNS(pod *corev1.Pod) string {
	return fmt.Sprintf("pod: %q. kubelet does not have ClusterDNS IP configured and cannot create Pod using %q policy. Falling back to %q policy.",
		fmt.Sprintf("%s_%s(%s)", pod.Name, pod.Namespace, pod.UID), corev1.DNSClusterFirst, corev1.DNSDefault)
}

// effectivePolicy is ClusterFirst, Default or None: the result of the policy for the pod's network. An unknown policy
// is ClusterFirst.
func effectivePolicy(pod *corev1.Pod) corev1.DNSPolicy {
	switch pod.Spec.DNSPolicy {
	case corev1.DNSNone, corev1.DNSDefault:
		return pod.Spec.DNSPolicy
	case corev1.DNSClusterFirst:
		if pod.Spec.HostNetwork {
			return corev1.DNSDefault
		}
	}
	return corev1.DNSClusterFirst
}

// node reads the node's resolv.conf.
func (r *Resolver) node() (cri.DNS, error) {
	if r.options.File == "" {
		return cri.DNS{}, nil
	}
	f, err := os.Open(r.options.File)
	if err != nil {
		return cri.DNS{}, err
	}
	defer func() { _ = f.Close() }()
	dns, err := Parse(f)
	if err != nil {
		return cri.DNS{}, fmt.Errorf("encountered error while parsing resolv conf file: %w", err)
	}
	return dns, nil
}

// local names the local machine as nameserver, as libraries assume if there is none. It must be explicit: for an empty
// configuration a runtime would use the node's file.
func (r *Resolver) local() cri.DNS {
	dns := cri.DNS{Searches: []string{"."}}
	for _, ip := range r.options.NodeIPs {
		if ip.Is6() && !ip.Is4In6() {
			dns.Servers = append(dns.Servers, "::1")
		} else {
			dns.Servers = append(dns.Servers, "127.0.0.1")
		}
	}
	if len(dns.Servers) == 0 {
		dns.Servers = []string{"127.0.0.1"}
	}
	return dns
}

func (r *Resolver) clusterSearches(namespace string, node []string) []string {
	domain := r.options.Domain
	if domain == "" {
		return node
	}
	return unique(append([]string{namespace + ".svc." + domain, "svc." + domain, domain}, node...))
}

// fit truncates a configuration to what libraries support, with warnings about what it left out.
func fit(dns cri.DNS) (fitting cri.DNS, warnings []string) {
	if len(dns.Servers) > MaxServers {
		dns.Servers = dns.Servers[:MaxServers]
		warnings = append(warnings, fmt.Sprintf("%s: Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: %s",
			ReasonDNSConfigForming, strings.Join(dns.Servers, " ")))
	}
	searches := dns.Searches[:min(len(dns.Searches), MaxSearches)]
	searches = slices.DeleteFunc(slices.Clone(searches), func(s string) bool { return len(s) > maxDomain })
	for len(strings.Join(searches, " ")) > MaxSearchesChars {
		searches = searches[:len(searches)-1]
	}
	if len(searches) < len(dns.Searches) {
		warnings = append(warnings, fmt.Sprintf("%s: Search Line limits were exceeded, some search paths have been omitted, the applied search line is: %s",
			ReasonDNSConfigForming, strings.Join(searches, " ")))
	}
	dns.Searches = searches
	return dns, warnings
}
