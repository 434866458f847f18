package prober_test

import (
	"encoding/json"
	"net/http"
	"os"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/kubelet/prober"
)

// TestRequestsAsUpstream compares with the requests that Kubernetes 1.36.1 (pkg/probe/http) makes.
func TestRequestsAsUpstream(t *testing.T) {
	data, err := os.ReadFile("testdata/requests.json")
	if err != nil {
		t.Fatal(err)
	}
	var facts []struct {
		Action           *corev1.HTTPGetAction
		Ports            []corev1.ContainerPort
		URL, Host, Error string
		Header           http.Header
	}
	if err := json.Unmarshal(data, &facts); err != nil {
		t.Fatal(err)
	}
	for i, f := range facts {
		host := f.Action.Host
		if host == "" {
			host = "10.1.2.3"
		}
		req, err := prober.NewRequest(f.Action, &corev1.Container{Name: "c", Ports: f.Ports}, host, "probe")
		if err != nil || f.Error != "" {
			if err == nil || err.Error() != f.Error {
				t.Errorf("%d: got error %v, want %q", i, err, f.Error)
			}
			continue
		}
		for key, values := range f.Header {
			if key == "User-Agent" {
				values[0] = strings.Replace(values[0], "kube-probe/.", "kube-probe/1.37", 1) // not recorded
			}
		}
		if req.URL.String() != f.URL || req.Host != f.Host || !reflect.DeepEqual(req.Header, f.Header) {
			t.Errorf("%d: %+v\ngot  %s %s %v\nwant %s %s %v", i, f.Action, req.URL, req.Host, req.Header, f.URL, f.Host, f.Header)
		}
	}
}
