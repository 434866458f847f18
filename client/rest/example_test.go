package rest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	clientgo "k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/rest"
)

// inProcess is a RoundTripper over a handler.
type inProcess struct{ http.Handler }

func (h inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result(), nil
}

// A client of a server in the same process, which answers everything with one pod.
func Example() {
	server := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(&corev1.Pod{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"},
		})
	})
	c, err := rest.New(&clientgo.Config{Host: "http://in.process", Transport: inProcess{server}}, scheme.Scheme)
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := client.As[*corev1.Pod](c.Get(context.Background(), client.Target{Resource: corev1.SchemeGroupVersion.WithResource("pods"), Namespace: "ns", Name: "p"}))
	fmt.Println(p.Namespace, p.Name, err)
	// Output: ns p <nil>
}
