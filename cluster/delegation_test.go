package cluster_test

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/authn/requestheader"
	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/pki"
)

// TestClientCA: other servers can read the authority of clients' certificates, and get the new one after a restart with
// another.
func TestClientCA(t *testing.T) {
	dir := t.TempDir()
	for _, authority := range []string{"first", "first", "second"} {
		c, err := cluster.Start(t.Context(), cluster.Options{Dir: dir, Server: cluster.Server{ClientCA: []byte(authority)}})
		if err != nil {
			t.Fatal(err)
		}
		scheduler := clientset(t, c.ConfigFor(cluster.User("system:kube-scheduler")))
		m, err := scheduler.CoreV1().ConfigMaps("kube-system").Get(t.Context(), "extension-apiserver-authentication", metav1.GetOptions{})
		if err != nil || m.Data["client-ca-file"] != authority {
			t.Errorf("%v, %v; want %s", m.Data, err, authority)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFrontProxy: servers of APIServices read whose headers to believe.
func TestFrontProxy(t *testing.T) {
	authority, err := pki.New("front-proxy-ca")
	if err != nil {
		t.Fatal(err)
	}
	proxy := &cluster.FrontProxy{CA: authority.PEM(), Headers: requestheader.Options{AllowedNames: []string{"front-proxy-client"}}}
	c, err := cluster.Start(t.Context(), cluster.Options{Server: cluster.Server{FrontProxy: proxy}})
	if err != nil {
		t.Fatal(err)
	}
	m, err := clientset(t, c.Config()).CoreV1().ConfigMaps("kube-system").Get(t.Context(), "extension-apiserver-authentication", metav1.GetOptions{})
	if err != nil || m.Data["requestheader-client-ca-file"] != string(authority.PEM()) ||
		m.Data["requestheader-allowed-names"] != `["front-proxy-client"]` || m.Data["requestheader-username-headers"] != `["X-Remote-User"]` {
		t.Errorf("%v, %v", m.Data, err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []cluster.FrontProxy{{CA: []byte("x")}, {CA: proxy.CA, Headers: requestheader.Options{UIDHeaders: []string{""}}}} {
		if _, err := cluster.New(cluster.Options{Server: cluster.Server{FrontProxy: &bad}}); !errors.Is(err, cluster.ErrOptions) {
			t.Errorf("%v", err)
		}
	}
}
