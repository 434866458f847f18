package apiserver_test

import (
	"net/http/httptest"
	"testing"

	"github.com/keelson-dev/keelson/apiserver"
)

// TestRequestKinds: which requests last, and which only read.
func TestRequestKinds(t *testing.T) {
	tests := []struct {
		method, path, verb, name string
		long, readOnly           bool
	}{
		{"GET", "/api/v1/pods", "list", "", false, true},
		{"GET", "/api/v1/namespaces/x/pods/p", "get", "p", false, true},
		{"GET", "/api/v1/pods?watch=true", "watch", "", true, true},
		{"GET", "/api/v1/pods?watch=0", "list", "", false, true},
		{"GET", "/api/v1/watch/namespaces/x/pods/p", "watch", "p", true, true},
		{"DELETE", "/api/v1/watch/pods", "watch", "", true, true},
		{"GET", "/api/v1/namespaces/x/pods/p/log", "get", "p", true, true},
		{"POST", "/api/v1/namespaces/x/pods/p/exec", "create", "p", true, false},
		{"GET", "/api/v1/namespaces/x/pods/p/portforward", "get", "p", true, true},
		{"GET", "/api/v1/namespaces/x/services/s/proxy/a/b", "get", "s", true, true},
		{"GET", "/api/v1/proxy/namespaces/x/services/s/log", "proxy", "s", true, false},
		{"GET", "/debug/pprof/profile", "get", "", true, true},
		{"GET", "/debug/pprof", "get", "", false, true},
		{"POST", "/version", "post", "", false, false},
		{"HEAD", "/version", "head", "", false, false},
		{"PUT", "/apis/apps/v1/namespaces/x/deployments/d/scale", "update", "d", false, false},
		// A name by field selector is one for a list and a watch, not for a deletion: who may
		// delete one by name may not so by selector.
		{"GET", "/api/v1/pods?fieldSelector=metadata.name%3Dp", "list", "p", false, true},
		{"GET", "/api/v1/pods?watch=1&fieldSelector=metadata.name%3Dp", "watch", "p", true, true},
		{"DELETE", "/api/v1/namespaces/x/pods?fieldSelector=metadata.name%3Dp", "deletecollection", "", false, false},
		{"GET", "/api/v1/watch/pods?fieldSelector=metadata.name%3Dp", "watch", "", true, true},
		{"GET", "/api/v1/pods?fieldSelector=metadata.name%3Da%2Fb", "list", "", false, true},
		{"GET", "/api/v1/pods?fieldSelector=%3D%3D%3D", "list", "", false, true},
	}
	for _, test := range tests {
		q := apiserver.ParseRequest(httptest.NewRequest(test.method, test.path, nil))
		if q.Verb != test.verb || q.Name != test.name || q.LongRunning() != test.long || q.ReadOnly() != test.readOnly {
			t.Errorf("%s %s: verb %q name %q long %v read-only %v", test.method, test.path, q.Verb, q.Name, q.LongRunning(), q.ReadOnly())
		}
	}
}
