package server_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz/alwaysallow"
	"github.com/keelson-dev/keelson/cri/simulated"
	"github.com/keelson-dev/keelson/kubelet/server"
)

// onePod is all that this node runs.
type onePod struct{ pod *corev1.Pod }

func (p onePod) Pods() []*corev1.Pod { return []*corev1.Pod{p.pod} }

func (p onePod) Pod(namespace, name string) (*corev1.Pod, bool) {
	return p.pod, p.pod.Namespace == namespace && p.pod.Name == name
}

// A server for one pod, called without a network. Run serves it over TLS.
func Example() {
	one := onePod{&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "nginx"}}},
	}}
	runtime := simulated.New(simulated.Options{})
	defer runtime.Close()
	s := server.New(one, runtime, server.Options{
		NodeName:      "node",
		Authenticator: authn.Func(func(*http.Request) (*authn.Identity, error) { return &authn.Identity{Name: "jane"}, nil }),
		Authorizer:    alwaysallow.New(),
	})
	answer := httptest.NewRecorder()
	s.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/containerLogs/default/web/nginx", nil))
	fmt.Println(answer.Code, answer.Body)
	// Output: 400 container "nginx" in pod "web" is not available
}
