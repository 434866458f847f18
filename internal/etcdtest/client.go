package etcdtest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/pki"
)

// User is the user that authenticates with Options.Password.
const User = "root"

// files holds the paths of PEM files.
type files struct {
	ca, serverCert, serverKey, cert, key string
	config                               *tls.Config
}

// CAFile returns the path of the authority that signed the members' certificates.
func (c *Cluster) CAFile() string { return c.files.ca }

// CertFile returns the path of a client certificate.
func (c *Cluster) CertFile() string { return c.files.cert }

// KeyFile returns the path of the key of CertFile.
func (c *Cluster) KeyFile() string { return c.files.key }

// Config returns a client configuration for the cluster.
func (c *Cluster) Config() clientv3.Config { return c.config(c.Endpoints(), c.options.Password != "") }

func (c *Cluster) config(endpoints []string, auth bool) clientv3.Config {
	const patience = 5 * time.Second
	config := clientv3.Config{Endpoints: endpoints, DialTimeout: patience, Logger: zap.NewNop()}
	if c.options.TLS {
		config.TLS = c.files.config.Clone()
	}
	if auth {
		config.Username, config.Password = User, c.options.Password
	}
	return config
}

// Client returns a client of the cluster, which is closed when the test ends.
func (c *Cluster) Client(t testing.TB) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(c.Config())
	if err != nil {
		t.Fatalf("etcd: client: %v", err)
	}
	t.Cleanup(func() { _ = client.Close() }) // fails only if it is already closed
	return client
}

// issue makes the certificates.
func (c *Cluster) issue() error {
	if !c.options.TLS {
		return nil
	}
	authority, err := pki.New("etcd")
	if err != nil {
		return fmt.Errorf("authority: %w", err)
	}
	const life = 24 * time.Hour
	server, err := authority.Issue(pki.Subject{Name: "etcd", Hosts: []string{"127.0.0.1", "localhost"}}, life)
	if err != nil {
		return fmt.Errorf("certificate: %w", err)
	}
	// To etcd the name is a user: it has no rights, so that only the password counts.
	client, err := authority.Issue(pki.Subject{Name: "nobody"}, life)
	if err != nil {
		return fmt.Errorf("certificate: %w", err)
	}
	path := func(name string) string { return filepath.Join(c.dir, name) }
	c.files = files{ca: path("ca.crt"), serverCert: path("server.crt"), serverKey: path("server.key"),
		cert: path("client.crt"), key: path("client.key")}
	for name, content := range map[string][]byte{
		c.files.ca:         authority.PEM(),
		c.files.serverCert: server.Certificate, c.files.serverKey: server.Key,
		c.files.cert: client.Certificate, c.files.key: client.Key,
	} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			return fmt.Errorf("certificate: %w", err)
		}
	}
	pair, err := client.TLS()
	if err != nil {
		return fmt.Errorf("certificate: %w", err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority.PEM())
	c.files.config = &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	return nil
}

// authenticate turns on authentication by password.
func (c *Cluster) authenticate(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyPatience)
	defer cancel()
	client, err := c.direct(0, false)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	if _, err := client.RoleAdd(ctx, User); err != nil {
		return fmt.Errorf("add the role: %w", err)
	}
	if _, err := client.UserAdd(ctx, User, c.options.Password); err != nil {
		return fmt.Errorf("add the user: %w", err)
	}
	if _, err := client.UserGrantRole(ctx, User, User); err != nil {
		return fmt.Errorf("grant the role: %w", err)
	}
	if _, err := client.AuthEnable(ctx); err != nil {
		return fmt.Errorf("turn authentication on: %w", err)
	}
	return nil
}
