package core_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/registry/registrytest"
)

func TestEndpoints(t *testing.T) {
	k := registrytest.Find(t, core.Kinds(core.Options{}), "endpoints")
	good := &corev1.Endpoints{ObjectMeta: named(), Subsets: []corev1.EndpointSubset{{
		Addresses: []corev1.EndpointAddress{{IP: "10.0.0.1"}}, Ports: []corev1.EndpointPort{{Name: "a", Port: 80}},
	}}}
	changes := []registrytest.Change[*corev1.Endpoints]{
		{Name: "no subsets", To: func(e *corev1.Endpoints) { e.Subsets = nil }},
		{Name: "none ready", To: func(e *corev1.Endpoints) {
			e.Subsets[0].NotReadyAddresses, e.Subsets[0].Addresses = e.Subsets[0].Addresses, nil
		}},
		{Name: "no address", To: func(e *corev1.Endpoints) { e.Subsets[0].Addresses = nil }, Refused: []string{
			"subsets[0]: Required value: must specify `addresses` or `notReadyAddresses`"}},
		{Name: "not an address", To: func(e *corev1.Endpoints) { e.Subsets[0].Addresses[0].IP = "x" }, Refused: []string{
			`subsets[0].addresses[0].ip: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)`,
			`subsets[0].addresses[0].ip: Invalid value: "x": must be a valid IP address`}},
		{Name: "loopback", To: func(e *corev1.Endpoints) { e.Subsets[0].Addresses[0].IP = "127.0.0.1" }, Refused: []string{
			`subsets[0].addresses[0].ip: Invalid value: "127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)`}},
		{Name: "nameless ports", To: func(e *corev1.Endpoints) {
			e.Subsets[0].Ports = append(e.Subsets[0].Ports, corev1.EndpointPort{Port: 81})
		}, Refused: []string{`subsets[0].ports[1].name: Required value`}},
		{Name: "bad port", To: func(e *corev1.Endpoints) { e.Subsets[0].Ports[0].Port, e.Subsets[0].Ports[0].Protocol = 0, "ICMP" }, Refused: []string{
			`subsets[0].ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive`,
			`subsets[0].ports[0].protocol: Unsupported value: "ICMP": supported values: "SCTP", "TCP", "UDP"`}},
	}
	registrytest.Create(t, k, good, changes)
	registrytest.Update(t, k, "", good, changes)

	old := good.DeepCopy()
	old.Subsets[0].Addresses[0].IP = "010.0.0.1"
	registrytest.Update(t, k, "", old, []registrytest.Change[*corev1.Endpoints]{
		{Name: "labels", To: func(e *corev1.Endpoints) { e.Labels = map[string]string{"a": "b"} }},
		{Name: "port", To: func(e *corev1.Endpoints) { e.Subsets[0].Ports[0].Port = 81 }, Refused: []string{
			`subsets[0].addresses[0].ip: Invalid value: "010.0.0.1": must not have leading 0s`}},
	})
}
