package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"

	"k8s.io/client-go/kubernetes/scheme"
	clientgo "k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/client/kubeconfig"
	"github.com/keelson-dev/keelson/client/rest"
	nodecertificates "github.com/keelson-dev/keelson/node/certificates"
)

// clientFile is where the certificate is by which the API server knows the node, if it was requested; the name is upstream's.
func (s settings) clientFile() string {
	return filepath.Join(s.root, "pki", "kubelet-client-current.pem")
}

// join requests the node's certificate with the credentials for bootstrapping, and writes the node's own kubeconfig, unless
// there is one.
func join(ctx context.Context, s settings, out io.Writer) error {
	if s.bootstrap == "" {
		return nil
	}
	if _, err := os.Stat(s.kubeconfig); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	access, err := kubeconfig.Load(kubeconfig.Options{Path: s.bootstrap})
	if err != nil {
		return fmt.Errorf("--bootstrap-kubeconfig: %w", err)
	}
	file, err := filepath.Abs(s.clientFile())
	if err != nil {
		return err
	}
	c, err := openCertificate(file, access.Config, nodecertificates.ForClient(s.name))
	if err != nil {
		return err
	}
	if _, err := c.Current(); errors.Is(err, nodecertificates.ErrNone) {
		fmt.Fprintf(out, "requesting a certificate for node %s from %s\n", s.name, access.Config.Host)
		if err := c.Renew(ctx); err != nil {
			return err
		}
	}
	ca := access.Config.CAData
	if path := access.Config.CAFile; len(ca) == 0 && path != "" {
		if ca, err = os.ReadFile(path); err != nil {
			return fmt.Errorf("--bootstrap-kubeconfig: %w", err)
		}
	}
	return kubeconfig.Add(ctx, s.kubeconfig, kubeconfig.Entry{
		Name: "default", User: "system:node:" + s.name, Server: access.Config.Host, CA: ca, CertificateFile: file, KeyFile: file,
	})
}

// rotate replaces the node's certificate from now on, if that is wanted. Clients read its file again.
func (n *node) rotate() error {
	if !n.settings.rotateClient {
		return nil
	}
	file, err := filepath.Abs(n.settings.clientFile())
	if err != nil {
		return err
	}
	if n.config.CertFile != file {
		return fmt.Errorf("--rotate-certificates: the certificate in %s is not that of --bootstrap-kubeconfig, which is %s", n.settings.kubeconfig, file)
	}
	o := nodecertificates.ForClient(n.settings.name)
	o.Logger = n.log
	c, err := openCertificate(file, n.config, o)
	if err != nil {
		return err
	}
	n.runs = append(n.runs, c)
	return nil
}

// serving finds the certificate of the server that the cluster issues. Until it has done so, handshakes fail.
func (n *node) serving(address netip.Addr) (func() (*tls.Certificate, error), error) {
	o := nodecertificates.ForServer(n.settings.name, func() ([]string, []netip.Addr) { return []string{n.settings.name}, []netip.Addr{address} })
	o.Logger = n.log
	c, err := openCertificate(filepath.Join(n.settings.root, "pki", "kubelet-server-current.pem"), n.config, o)
	if err != nil {
		return nil, err
	}
	n.runs = append(n.runs, c)
	return c.Current, nil
}

func openCertificate(file string, config *clientgo.Config, o nodecertificates.Options) (*nodecertificates.Certificate, error) {
	api, err := rest.New(config, scheme.Scheme)
	if err != nil {
		return nil, err
	}
	return nodecertificates.Open(file, api, o)
}
