package dns

import (
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// serviceItems returns what a name below svc stands for; none if there is no such service, endpoint or port.
func (z *Zone) serviceItems(r request) []item {
	service, ok := z.index.service(r.namespace, r.service)
	if !ok {
		return nil
	}
	domain := r.service + "." + r.namespace + ".svc." + z.domain
	switch {
	case service.Spec.Type == corev1.ServiceTypeExternalName:
		return external(service, r)
	case headless(service) || r.endpoint != "":
		return z.endpointItems(r, domain)
	}
	var items []item
	for _, p := range portsOf(service) {
		if !r.fits(p.Name, string(p.Protocol)) {
			continue
		}
		for _, text := range service.Spec.ClusterIPs {
			if ip, err := netip.ParseAddr(text); err == nil {
				items = append(items, item{address: ip.Unmap(), name: domain, port: p.Port})
			}
		}
	}
	return items
}

// external returns the name that an ExternalName service stands for. Its ports and endpoints have no names.
func external(service *corev1.Service, r request) []item {
	name := service.Spec.ExternalName
	if _, err := netip.ParseAddr(name); err == nil || name == "" || r.endpoint != "" || r.port != "" || r.protocol != "" {
		return nil
	}
	return []item{{target: strings.TrimSuffix(name, ".") + "."}}
}

func headless(s *corev1.Service) bool {
	if len(s.Spec.ClusterIPs) > 0 {
		return s.Spec.ClusterIPs[0] == corev1.ClusterIPNone
	}
	return s.Spec.ClusterIP == corev1.ClusterIPNone
}

func portsOf(s *corev1.Service) []corev1.ServicePort {
	if len(s.Spec.Ports) == 0 {
		return []corev1.ServicePort{{Port: noPort}}
	}
	return s.Spec.Ports
}

// fits reports whether a port is what the name asks for.
func (r request) fits(port, protocol string) bool {
	return (r.port == "" || strings.EqualFold(r.port, port)) && (r.protocol == "" || strings.EqualFold(r.protocol, protocol))
}

// endpointItems returns the ready endpoints of a service that a name stands for.
func (z *Zone) endpointItems(r request, domain string) []item {
	var items []item
	for _, slice := range z.index.slices(r.namespace, r.service) {
		if slice.AddressType == discoveryv1.AddressTypeFQDN {
			continue
		}
		ports := slicePorts(slice, r)
		for i := range slice.Endpoints {
			e := &slice.Endpoints[i]
			if !ready(e) {
				continue
			}
			for _, text := range e.Addresses {
				name := hostname(e, text)
				ip, err := netip.ParseAddr(text)
				if err != nil || r.endpoint != "" && !strings.EqualFold(r.endpoint, name) {
					continue
				}
				for _, port := range ports {
					items = append(items, item{address: ip.Unmap(), name: name + "." + domain, port: port})
				}
			}
		}
	}
	return items
}

// slicePorts are the ports of a slice that a name asks for.
func slicePorts(s *discoveryv1.EndpointSlice, r request) []int32 {
	if len(s.Ports) == 0 {
		s = &discoveryv1.EndpointSlice{Ports: []discoveryv1.EndpointPort{{}}}
	}
	var ports []int32
	for _, p := range s.Ports {
		if r.fits(value(p.Name, ""), string(value(p.Protocol, ""))) {
			ports = append(ports, value(p.Port, noPort))
		}
	}
	return ports
}

func value[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}

// hostname is the first label of the name of an endpoint's address.
func hostname(e *discoveryv1.Endpoint, ip string) string {
	if e.Hostname != nil && *e.Hostname != "" {
		return *e.Hostname
	}
	return dashed(ip)
}

// namesOf returns the names of an address: that of the service whose cluster IP it is, or those of its endpoints.
func (z *Zone) namesOf(ip string) []string {
	if s, ok := z.index.serviceAt(ip); ok {
		return []string{s.Name + "." + s.Namespace + ".svc." + z.domain}
	}
	var names []string
	for _, slice := range z.index.slicesAt(ip) {
		for i := range slice.Endpoints {
			e := &slice.Endpoints[i]
			if !ready(e) {
				continue
			}
			for _, address := range e.Addresses {
				if address == ip {
					names = append(names, hostname(e, ip)+"."+slice.Labels[discoveryv1.LabelServiceName]+"."+slice.Namespace+".svc."+z.domain)
				}
			}
		}
	}
	return names
}

// servers returns the addresses of the zone's servers: of the services whose endpoints the server's own addresses are,
// or those addresses.
func (l *lookup) servers() []item {
	var items []item
	found := false
	for _, own := range l.addresses {
		for _, slice := range l.index.slicesAt(own.String()) {
			found = true
			name := slice.Labels[discoveryv1.LabelServiceName]
			service, ok := l.index.service(slice.Namespace, name)
			if !ok {
				continue
			}
			domain := name + "." + slice.Namespace + ".svc." + l.zone
			if headless(service) {
				items = append(items, l.endpointItems(request{namespace: slice.Namespace, service: name}, domain)...)
				continue
			}
			for _, text := range service.Spec.ClusterIPs {
				if ip, err := netip.ParseAddr(text); err == nil {
					items = append(items, item{address: ip.Unmap(), name: domain})
				}
			}
		}
	}
	if !found {
		for _, own := range l.addresses {
			items = append(items, item{address: own.Unmap(), name: "ns.dns." + l.zone})
		}
	}
	return items
}

// nameServers answers a question for the zone's NS records.
func (l *lookup) nameServers() Answer {
	var a Answer
	for _, s := range l.servers() {
		a.Records = append(a.Records, Record{Name: l.q.Name, Type: TypeNS, TTL: l.ttl, Target: s.name})
		a.Extra = append(a.Extra, Record{Name: s.name, Type: typeOf(s.address), TTL: l.ttl, Address: s.address})
	}
	a.Records, a.Extra = distinct(a.Records), distinct(a.Extra)
	return a
}
