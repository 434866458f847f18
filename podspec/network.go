package podspec

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// hostNetworkPorts checks that host ports equal container ports on the host's network. A template may leave out the
// host port, which is filled in for its pods.
func (v *validator) hostNetworkPorts(p *field.Path) {
	if !v.spec.HostNetwork {
		return
	}
	for i := range v.spec.Containers {
		for j, port := range v.spec.Containers[i].Ports {
			if port.HostPort != port.ContainerPort && (v.pod || port.HostPort != 0) {
				v.invalid(p.Index(i).Child("ports").Index(j).Child("hostPort"), port.HostPort,
					"must match `containerPort` when `hostNetwork` is true")
			}
		}
	}
}

// dnsConfig enforces the limits of libc's resolver.
func (v *validator) dnsConfig(p *field.Path) {
	const maxServers, maxSearches, maxSearchLength = 3, 32, 2048
	dns, servers, searches := v.spec.DNSConfig, p.Child("nameservers"), p.Child("searches")
	if v.spec.DNSPolicy == corev1.DNSNone {
		if dns == nil {
			v.required(p, fmt.Sprintf("must provide `dnsConfig` when `dnsPolicy` is %s", corev1.DNSNone))
			return
		}
		if len(dns.Nameservers) == 0 {
			v.required(servers, fmt.Sprintf("must provide at least one DNS nameserver when `dnsPolicy` is %s", corev1.DNSNone))
			return
		}
	}
	if dns == nil {
		return
	}
	if len(dns.Nameservers) > maxServers {
		v.invalid(servers, dns.Nameservers, fmt.Sprintf("must not have more than %v nameservers", maxServers))
	}
	for i, ip := range dns.Nameservers {
		v.add(validation.IsValidIPForLegacyField(servers.Index(i), ip, true, nil)...)
	}
	if len(dns.Searches) > maxSearches {
		v.invalid(searches, dns.Searches, fmt.Sprintf("must not have more than %v search paths", maxSearches))
	}
	if len(strings.Join(dns.Searches, " ")) > maxSearchLength {
		v.invalid(searches, dns.Searches, fmt.Sprintf("must not have more than %v characters (including spaces) in the search list", maxSearchLength))
	}
	for i, search := range dns.Searches {
		if search != "." {
			search = strings.TrimSuffix(search, ".")
			v.invalid(searches.Index(i), search, validation.IsDNS1123SubdomainWithUnderscore(search)...)
		}
	}
	for i, option := range dns.Options {
		if option.Name == "" {
			v.required(p.Child("options").Index(i), "must not be empty")
		}
	}
}

func (v *validator) hostAliases(p *field.Path) {
	for i, alias := range v.spec.HostAliases {
		v.add(validation.IsValidIPForLegacyField(p.Index(i).Child("ip"), alias.IP, true, nil)...)
		for j, name := range alias.Hostnames {
			v.subdomain(p.Index(i).Child("hostnames").Index(j), name)
		}
	}
}

// hostnameOverride validates a freely chosen host name (KEP-4762).
func (v *validator) hostnameOverride(p *field.Path) {
	const longest = 64
	name, at := v.spec.HostnameOverride, p.Child("hostnameOverride")
	if name == nil {
		return
	}
	if v.spec.SetHostnameAsFQDN != nil && *v.spec.SetHostnameAsFQDN {
		v.forbidden(at, "may not be specified when setHostnameAsFQDN is true")
	}
	if v.spec.HostNetwork {
		v.forbidden(at, "may not be specified when hostNetwork is true")
	}
	if len(*name) > longest {
		v.add(field.TooLong(at, "", longest))
	}
	v.subdomain(at, *name)
}
