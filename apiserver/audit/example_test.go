package audit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/keelson-dev/keelson/apiserver/audit"
	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
)

// A policy that records who changed what, to a sink that prints. An API server is given the log
// as apiserver.Options.Audit; here a request passes by hand.
func Example() {
	policy, err := audit.ParsePolicy([]byte(`
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: ["RequestReceived"]
rules:
- level: None
  verbs: ["get", "list", "watch"]
- level: Metadata
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	sink := audit.SinkFunc(func(e *auditv1.Event) error {
		fmt.Println(e.User.Username, e.Verb, e.ResponseStatus.Code)
		return nil
	})
	log := audit.New(policy, sink, audit.Options{})

	for _, verb := range []string{"list", "create"} {
		q := &audit.Request{
			HTTP:       httptest.NewRequest(http.MethodGet, "/api/v1/namespaces/x/pods", nil),
			Attributes: authz.Attributes{User: &authn.Identity{Name: "ann"}, Verb: verb},
		}
		record := log.Open()
		if record.Begin(q) {
			if err := record.Received(); err != nil {
				fmt.Println(err)
			}
			record.Code(201)
			record.Completed()
		}
	}
	// Output: ann create 201
}
