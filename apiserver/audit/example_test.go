package audit_test

import (
	"fmt"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/keelson-dev/keelson/apiserver/audit"
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
		q := request("/api/v1/namespaces/x/pods")
		q.Attributes.Verb = verb
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
