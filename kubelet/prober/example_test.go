package prober_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/keelson-dev/keelson/kubelet"
	"github.com/keelson-dev/keelson/kubelet/prober"
)

// A container that answers with an error has failed its probe.
func Example() {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	address, err := url.Parse(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	container := &corev1.Container{Name: "web"}
	probe := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
		HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromString(address.Port())},
	}}
	err = prober.New(prober.Options{}).Probe(context.Background(), kubelet.ProbeTarget{
		Pod: &corev1.Pod{}, Container: container, IPs: []string{address.Hostname()}, Probe: probe,
	})
	fmt.Println(err)
	// Output: HTTP probe failed with statuscode: 404
}
