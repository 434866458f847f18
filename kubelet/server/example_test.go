package server_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz/alwaysallow"
	"github.com/keelson-dev/keelson/kubelet/server"
)

// A server of one pod, asked without a network. Run serves it over TLS.
func Example() {
	one := pods{{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "nginx"}}}}}
	s := server.New(one, &runtime{}, server.Options{
		NodeName:      "node",
		Authenticator: authn.Func(func(*http.Request) (*authn.Identity, error) { return &authn.Identity{Name: "jane"}, nil }),
		Authorizer:    alwaysallow.New(),
	})
	answer := httptest.NewRecorder()
	s.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/containerLogs/default/web/nginx", nil))
	fmt.Println(answer.Code, answer.Body)
	// Output: 400 container "nginx" in pod "web" is not available
}
