// Package controlplane runs a cluster of upstream's programs: etcd, API server, controllers, scheduler and kubelets,
// for measurements and tests that compare it with keelson's. Package upstream builds them.
package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/client/kubeconfig"
	"github.com/keelson-dev/keelson/internal/upstream"
	"github.com/keelson-dev/keelson/pki"
)

// Access is how clients with certificates of its authority reach an API server.
type Access struct {
	// Dir is the directory for files.
	Dir string
	// URL is the server's URL.
	URL       string
	Authority *pki.Authority
}

// File returns the path of a file in Dir.
func (a *Access) File(name string) string { return filepath.Join(a.Dir, name) }

// Config returns a client configuration for a user, without client-side rate limits.
func (a *Access) Config(user string, groups ...string) (*rest.Config, error) {
	pair, err := a.Authority.Issue(pki.Subject{Name: user, Groups: groups}, time.Hour)
	return &rest.Config{
		Host: a.URL, QPS: -1, WarningHandler: rest.NoWarnings{},
		TLSClientConfig: rest.TLSClientConfig{CAData: a.Authority.PEM(), CertData: pair.Certificate, KeyData: pair.Key},
	}, err
}

// Kubeconfig writes a kubeconfig for a user and returns its path.
func (a *Access) Kubeconfig(ctx context.Context, name, user string, groups ...string) (string, error) {
	c, err := a.Config(user, groups...)
	if err != nil {
		return "", err
	}
	path := a.File(name + ".kubeconfig")
	return path, WriteKubeconfig(ctx, path, c)
}

// Site holds the files and ports of one upstream control plane. Its authority and keys are in its directory under
// kubeadm's names.
type Site struct {
	Access
	client, members, serve int
}

// New makes a Site in a directory.
func New(dir string) (*Site, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	authority, err := pki.Open(dir, "kubernetes")
	if err != nil {
		return nil, err
	}
	s := &Site{Access: Access{Dir: dir, Authority: authority}}
	for _, port := range []*int{&s.client, &s.members, &s.serve} {
		if *port, err = FreePort(); err != nil {
			return nil, err
		}
	}
	s.URL = "https://127.0.0.1:" + strconv.Itoa(s.serve)
	_, serving := authority.Keep("apiserver", pki.Subject{Name: "kube-apiserver", Hosts: []string{"127.0.0.1", "kubernetes.default.svc"}}, time.Hour)
	_, accounts := authority.Keep("sa", pki.Subject{Name: "accounts"}, time.Hour)
	return s, errors.Join(serving, accounts)
}

// WriteKubeconfig writes a client configuration as a kubeconfig.
func WriteKubeconfig(ctx context.Context, path string, c *rest.Config) error {
	return kubeconfig.Add(ctx, path, kubeconfig.Entry{
		Name: "it", Server: c.Host, CA: c.CAData, Certificate: c.CertData, Key: c.KeyData, Token: c.BearerToken,
	})
}

// Arguments returns the arguments of the programs, by name: etcd, kube-apiserver, kube-controller-manager and
// kube-scheduler.
func (s *Site) Arguments(ctx context.Context) (map[string][]string, error) {
	manager, managers := s.Kubeconfig(ctx, "controller-manager", "system:kube-controller-manager")
	scheduler, schedulers := s.Kubeconfig(ctx, "scheduler", "system:kube-scheduler")
	storage, peers := fmt.Sprintf("http://127.0.0.1:%d", s.client), fmt.Sprintf("http://127.0.0.1:%d", s.members)
	return map[string][]string{
		upstream.Etcd: {
			"--name=it", "--data-dir=" + s.File("etcd"), "--listen-client-urls=" + storage, "--advertise-client-urls=" + storage,
			"--listen-peer-urls=" + peers, "--initial-advertise-peer-urls=" + peers, "--initial-cluster=it=" + peers, "--log-level=warn",
		},
		upstream.APIServer: {
			"--etcd-servers=" + storage, "--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(s.serve), "--cert-dir=" + s.File("certificates"),
			"--tls-cert-file=" + s.File("apiserver.crt"), "--tls-private-key-file=" + s.File("apiserver.key"), "--client-ca-file=" + s.File("ca.crt"),
			"--authorization-mode=Node,RBAC", "--service-cluster-ip-range=10.0.0.0/24", "--service-account-issuer=https://kubernetes.default.svc",
			"--service-account-key-file=" + s.File("sa.crt"), "--service-account-signing-key-file=" + s.File("sa.key"),
		},
		upstream.ControllerManager: {
			"--kubeconfig=" + manager, "--use-service-account-credentials", "--service-account-private-key-file=" + s.File("sa.key"),
			"--root-ca-file=" + s.File("ca.crt"), "--leader-elect=false", "--secure-port=0",
		},
		upstream.Scheduler: {"--kubeconfig=" + scheduler, "--leader-elect=false", "--secure-port=0"},
	}, errors.Join(managers, schedulers)
}

// FreePort returns a port of the loopback interface that is free.
func FreePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}
