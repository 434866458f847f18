package webhook_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/apiserver/audit"
	"github.com/keelson-dev/keelson/apiserver/audit/webhook"
)

// A log whose events go to a server. A program makes the configuration from a file, with package client/kubeconfig, and gives the
// log to an API server as apiserver.Options.Audit.
func Example() {
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var list auditv1.EventList
		if err := json.NewDecoder(r.Body).Decode(&list); err != nil {
			fmt.Println(err)
		}
		for _, e := range list.Items {
			fmt.Println(e.Verb, e.RequestURI)
		}
	}))
	defer collector.Close()
	sink, err := webhook.New(&rest.Config{Host: collector.URL}, webhook.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, end := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- sink.Run(ctx) }()

	log := audit.New(audit.Everything(auditv1.LevelMetadata), sink, audit.Options{})
	record := log.Open()
	if record.Begin(&audit.Request{HTTP: httptest.NewRequest(http.MethodGet, "/version", nil)}) {
		record.Completed()
	}

	end() // after the last request; what was collected is posted now
	fmt.Println(<-done)
	// Output:
	//  /version
	// <nil>
}
