package connect_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/apiserver/connect"
	"github.com/keelson-dev/keelson/internal/inmemory"
	"github.com/keelson-dev/keelson/registry"
)

// stored are objects by their names.
type stored map[string]registry.Object

func (s stored) Get(_ context.Context, key registry.ObjectKey) (registry.Object, error) {
	if o, ok := s[key.Resource.Resource+"/"+key.Name]; ok {
		return o, nil
	}
	return nil, registry.ErrNotFound
}

func (s stored) List(context.Context, schema.GroupResource, string) ([]registry.Object, error) {
	return nil, nil
}

// TestLocalKubelets: kubelets in this process are asked without a network, others are not affected.
func TestLocalKubelets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		echo := func(what string) *inmemory.Server {
			return inmemory.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = fmt.Fprint(w, what, " ", r.URL) }))
		}
		kubelet, ports := echo("kubelet"), echo("port")
		defer kubelet.Close()
		defer ports.Close()
		c := connect.New(connect.Options{
			Kubelets: func(node string) connect.Dial {
				if node != "local" {
					return nil
				}
				return func(ctx context.Context, _, _ string) (net.Conn, error) { return kubelet.Dial(ctx, nil) }
			},
			Ports: func(ctx context.Context, _, _ string) (net.Conn, error) { return ports.Dial(ctx, nil) },
		})
		defer c.Close()
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns"}, Spec: corev1.PodSpec{NodeName: "local", Containers: []corev1.Container{{Name: "c"}}}}
		pod.Status.PodIPs = []corev1.PodIP{{IP: "10.64.0.7"}}
		objects := stored{
			"pods/p": pod, "nodes/local": &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "local"}}, "nodes/other": &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "other"}},
		}
		for name, test := range map[string]struct {
			name    string
			options runtime.Object
			want    string
		}{
			"logs":            {"p", &corev1.PodLogOptions{TailLines: new(int64(3))}, "kubelet /containerLogs/ns/p/c?tailLines=3"},
			"unverified logs": {"p", &corev1.PodLogOptions{InsecureSkipTLSVerifyBackend: true}, "kubelet /containerLogs/ns/p/c"},
			"node":            {"local", &corev1.NodeProxyOptions{Path: "/pods"}, "kubelet /pods"},
			"node's port":     {"local:10250", &corev1.NodeProxyOptions{Path: "/pods"}, "kubelet /pods"},
			"another port":    {"local:80", &corev1.NodeProxyOptions{Path: "/pods"}, "error: nothing listens on other ports of a node in this process"},
			"another node":    {"other", &corev1.NodeProxyOptions{Path: "/pods"}, "error: no preferred addresses found; known addresses: []"},
			"pod":             {"p:8080", &corev1.PodProxyOptions{Path: "/x"}, "port /x"},
		} {
			got := ""
			connection, err := c.Connect(t.Context(), objects, apiserver.Target{Namespace: "ns", Name: test.name, Options: test.options})
			if err == nil {
				w := httptest.NewRecorder()
				r := httptest.NewRequest(http.MethodGet, "/proxied", nil)
				r.RequestURI = ""
				err = connection(w, r)
				text, _ := io.ReadAll(w.Body)
				got = string(text)
			}
			if err != nil {
				got = "error: " + err.Error()
			}
			if strings.TrimSuffix(got, "?") != test.want {
				t.Errorf("%s: %q, want %q", name, got, test.want)
			}
		}
	})
}
