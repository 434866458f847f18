package denyserviceexternalips_test

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/admissiontest"
	"github.com/keelson-dev/keelson/admission/denyserviceexternalips"
)

func service(addresses ...string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s"}, Spec: corev1.ServiceSpec{ExternalIPs: addresses}}
}

func TestPlugin(t *testing.T) {
	p := denyserviceexternalips.New()
	const refused = `services "s" is forbidden: Use of external IPs is denied by admission control`
	for name, c := range map[string]struct {
		r       *admission.Request
		refused string
	}{
		"none":             {admissiontest.Create(t, service()), ""},
		"a new service":    {admissiontest.Create(t, service("192.0.2.1")), refused},
		"an added address": {admissiontest.Update(t, service("192.0.2.1"), service("192.0.2.1", "192.0.2.2")), refused},
		"another address":  {admissiontest.Update(t, service("192.0.2.1"), service("192.0.2.2")), refused},
		"as before":        {admissiontest.Update(t, service("192.0.2.1"), service("192.0.2.1")), ""},
		"in another order": {admissiontest.Update(t, service("192.0.2.1", "192.0.2.2"), service("192.0.2.2", "192.0.2.1")), ""},
		"one less":         {admissiontest.Update(t, service("192.0.2.1", "192.0.2.2"), service("192.0.2.2")), ""},
		"a subresource":    {admissiontest.Create(t, service("192.0.2.1"), admissiontest.Subresource("status")), ""},
		"another group's":  {admissiontest.Create(t, service("192.0.2.1"), func(r *admission.Request) { r.Resource.Group = "x" }), ""},
		"no service": {admissiontest.Create(t, service(), func(r *admission.Request) { r.Object = &corev1.Node{} }),
			"Internal error occurred: Expected Service resource, got: /v1, Kind=Service"},
		"no service before": {admissiontest.Update(t, service(), service("192.0.2.1"), func(r *admission.Request) { r.OldObject = &corev1.Node{} }),
			"Internal error occurred: Expected Service resource, got: /v1, Kind=Service"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.refused != "" {
				admissiontest.Refuses(t, p, c.r, c.refused)
				return
			}
			admissiontest.TestPlugin(t, p, c.r)
			admissiontest.Admits(t, p, c.r, c.r.Object)
		})
	}
	if p.Handles(admission.Delete) {
		t.Error("it handles deletes")
	}
}

func Example() {
	r := &admission.Request{Operation: admission.Create, Resource: corev1.SchemeGroupVersion.WithResource("services"), Name: "s", Object: &corev1.Service{
		Spec: corev1.ServiceSpec{ExternalIPs: []string{"192.0.2.1"}},
	}}
	fmt.Println(denyserviceexternalips.New().Validate(context.Background(), r))
	// Output: services "s" is forbidden: Use of external IPs is denied by admission control
}
