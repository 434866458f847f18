// Package testcluster serves a cluster over TLS inside a test, for tests of programs that use only a kubeconfig.
package testcluster

import (
	"context"
	"encoding/pem"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/token"
	"github.com/keelson-dev/keelson/client/kubeconfig"
	"github.com/keelson-dev/keelson/cluster"
)

// Serve runs a cluster until the test ends, and returns it with the path of a kubeconfig for its administrator, who
// authenticates with a token.
func Serve(t testing.TB, o cluster.Options) (config string, c *cluster.Cluster) {
	t.Helper()
	const secret = "s3cr3t"
	o.Authenticators = append([]cluster.AuthenticatorStage{
		cluster.Ready[authn.Authenticator]("token", token.New(token.Static(map[string]*authn.Identity{secret: cluster.Admin()}))),
	}, cluster.DefaultAuthenticators()...)
	c, err := cluster.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	server := httptest.NewUnstartedServer(c.Handler())
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(func() {
		c.Drain()
		server.Close()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	if err := c.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	config = filepath.Join(t.TempDir(), ".kube", "config")
	err = kubeconfig.Add(ctx, config, kubeconfig.Entry{
		Name: "test", Server: server.URL, Token: secret,
		CA: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
	})
	if err != nil {
		t.Fatal(err)
	}
	return config, c
}
