package cluster_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/cluster"
)

// TestClientCA: servers beside the API server find the authority of clients' certificates, the present one
// after a restart with another, and who runs them may read it.
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
