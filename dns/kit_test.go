package dns_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/dns"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/memory"
)

// world is a cluster's objects and an index over them. It lives in a bubble.
type world struct {
	services   *memory.Store[*corev1.Service]
	slices     *memory.Store[*discoveryv1.EndpointSlice]
	namespaces *memory.Store[*corev1.Namespace]
	index      *dns.Index
}

// inWorld calls f in a bubble, before the informers run: start does that.
func inWorld(t *testing.T, f func(t *testing.T, w *world, start func())) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{memory.New[*corev1.Service](), memory.New[*discoveryv1.EndpointSlice](), memory.New[*corev1.Namespace](), nil}
		in := dns.Sources{
			Services:       informer.New(w.services, informer.Options{DetectMutations: func(err error) { t.Error(err) }}),
			EndpointSlices: informer.New(w.slices, informer.Options{DetectMutations: func(err error) { t.Error(err) }}),
			Namespaces:     informer.New(w.namespaces, informer.Options{}),
		}
		w.index = dns.NewIndex(in)
		f(t, w, func() {
			go func() { _ = in.Services.Run(t.Context()) }()
			go func() { _ = in.EndpointSlices.Run(t.Context()) }()
			go func() { _ = in.Namespaces.Run(t.Context()) }()
			synctest.Wait()
		})
		w.index.Close()
	})
}

func (w *world) zone(t *testing.T, o dns.Options) *dns.Zone {
	t.Helper()
	zone, err := dns.New(w.index, o)
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

func (w *world) namespace(name string) {
	w.namespaces.Put(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
}

// service puts a service: ports are written as name/protocol/number.
func (w *world) service(namespace, name string, ips []string, ports ...string) {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	s.Spec.ClusterIPs = ips
	for _, text := range ports {
		name, protocol, number := port(text)
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: name, Protocol: protocol, Port: number})
	}
	w.services.Put(s)
}

func (w *world) external(namespace, name, target string) {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	s.Spec.Type, s.Spec.ExternalName = corev1.ServiceTypeExternalName, target
	s.Spec.Ports = []corev1.ServicePort{{Name: "http", Protocol: "TCP", Port: 80}}
	w.services.Put(s)
}

func port(text string) (string, corev1.Protocol, int32) {
	parts := strings.Split(text, "/")
	var number int32
	_, _ = fmt.Sscan(parts[2], &number)
	return parts[0], corev1.Protocol(parts[1]), number
}

// slice puts an endpoint slice: endpoints are written as address, hostname=address, or !address if they are not ready.
func (w *world) slice(namespace, service, name string, endpoints []string, ports ...string) {
	s := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4, ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: service},
	}}
	for _, text := range endpoints {
		var e discoveryv1.Endpoint
		address, unready := strings.CutPrefix(text, "!")
		if unready {
			e.Conditions.Ready = new(false)
		} else if len(s.Endpoints)%2 == 0 {
			e.Conditions.Ready = new(true) // unknown is ready, too
		}
		if host, ip, ok := strings.Cut(address, "="); ok {
			e.Hostname, address = &host, ip
		}
		e.Addresses = []string{address}
		s.Endpoints = append(s.Endpoints, e)
	}
	for _, text := range ports {
		name, protocol, number := port(text)
		s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: &name, Protocol: &protocol, Port: &number})
	}
	w.slices.Put(s)
}

// types are those that tests write by name.
func types() map[string]dns.Type {
	return map[string]dns.Type{
		"A": dns.TypeA, "NS": dns.TypeNS, "CNAME": dns.TypeCNAME, "SOA": dns.TypeSOA, "PTR": dns.TypePTR, "MX": dns.TypeMX,
		"TXT": dns.TypeTXT, "AAAA": dns.TypeAAAA, "SRV": dns.TypeSRV, "IXFR": dns.TypeIXFR, "AXFR": dns.TypeAXFR, "CAA": 257,
	}
}

// ask asks a question, written as name and type, and returns what show makes of the answer.
func ask(zone *dns.Zone, question string) string {
	name, kind, _ := strings.Cut(question, " ")
	a, ok := zone.Answer(dns.Question{Name: name, Type: types()[kind]})
	if !ok {
		return "not ours"
	}
	return show(a)
}

// show writes an answer: its code unless it is success, its records, "+" and each extra one, "follow", "soa" and its zone.
// Records are sorted, those of CNAMEs first.
func show(a dns.Answer) string {
	var parts []string
	if a.Code != dns.Success {
		parts = append(parts, map[dns.Code]string{dns.NameError: "NXDOMAIN", dns.ServerFailure: "SERVFAIL", dns.Refused: "REFUSED"}[a.Code])
	}
	add := func(prefix string, records []dns.Record) {
		var lines []string
		for _, r := range records {
			lines = append(lines, prefix+record(r))
		}
		slices.Sort(lines)
		parts = append(parts, lines...)
	}
	add("", a.Records)
	add("+", a.Extra)
	if a.Follow != "" {
		parts = append(parts, "follow "+a.Follow)
	}
	for _, r := range a.SOA {
		parts = append(parts, "soa "+r.Name)
	}
	return strings.Join(parts, "; ")
}

func record(r dns.Record) string {
	head := fmt.Sprintf("%s %d", r.Name, r.TTL)
	switch r.Type {
	case dns.TypeA, dns.TypeAAAA:
		return head + " " + r.Address.String()
	case dns.TypeSRV:
		return fmt.Sprintf("%s SRV %d %d %s", head, r.Weight, r.Port, r.Target)
	case dns.TypeTXT:
		return head + " TXT " + r.Text
	case dns.TypeSOA:
		a := r.Authority
		return fmt.Sprintf("%s SOA %s %s %d %d %d %d", head, a.NS, a.Mailbox, a.Refresh, a.Retry, a.Expire, a.Minimum)
	default:
		return fmt.Sprintf("%s %d %s", head, r.Type, r.Target)
	}
}
