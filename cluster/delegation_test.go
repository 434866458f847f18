package cluster_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/cluster"
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
