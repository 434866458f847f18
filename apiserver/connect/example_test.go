package connect_test

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/apiserver/connect"
	"github.com/keelson-dev/keelson/authz/alwaysallow"
	"github.com/keelson-dev/keelson/pki"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/storage/memory"
)

// An API server that reaches kubelets by a client certificate of the cluster's authority.
func Example() {
	authority, err := pki.New("kubernetes")
	if err != nil {
		fmt.Println(err)
		return
	}
	pair, err := authority.Issue(pki.Subject{Name: "kube-apiserver-kubelet-client", Groups: []string{"system:masters"}}, 365*24*time.Hour)
	if err != nil {
		fmt.Println(err)
		return
	}
	certificate, err := pair.TLS()
	if err != nil {
		fmt.Println(err)
		return
	}
	connector := connect.New(connect.Options{TLS: &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificate}, RootCAs: authority.Pool(),
	}})
	defer connector.Close()
	reg, err := registry.New(memory.New(memory.Options{}), core.Kinds(core.Options{}), registry.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	server := apiserver.New(reg, apiserver.Options{Authorizer: alwaysallow.New(), Connector: connector})
	answer := httptest.NewRecorder()
	server.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/api/v1/namespaces/default/pods/none/log?tailLines=-1", nil))
	fmt.Println(answer.Code)
	// Output: 422
}
