package cluster_test

import (
	"context"
	"crypto/tls"
	stdx509 "crypto/x509"
	"net/netip"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/node/certificates"
	"github.com/keelson-dev/keelson/pki"
)

// TestNodeCertificates: a node joins by a bootstrap token, and from then on has a valid certificate; that of its server waits
// for somebody's approval, and follows its addresses.
func TestNodeCertificates(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		authority, err := pki.New("kubernetes")
		if err != nil {
			t.Fatal(err)
		}
		c := start(t, cluster.Options{Server: cluster.Server{RootCA: authority.PEM(), Signer: authority}})
		w := &world{t: t, ctx: t.Context(), c: c, cs: clientset(t, c.Config())}
		w.bind("system:node-bootstrapper", "system:bootstrappers")
		w.bind("system:certificates.k8s.io:certificatesigningrequests:nodeclient", "system:bootstrappers")
		w.bind("system:certificates.k8s.io:certificatesigningrequests:selfnodeclient", authn.GroupNodes)

		file := filepath.Join(dir, "client.pem")
		joining, err := c.Client(&authn.Identity{Name: "system:bootstrap:abcdef", Groups: []string{"system:bootstrappers", authn.GroupAuthenticated}})
		w.check(err)
		joins := certificates.ForClient("n")
		joins.Life = time.Hour
		first, err := certificates.Open(file, joining, joins)
		w.check(err)
		w.check(first.Renew(w.ctx))
		own, err := c.Client(authn.NodeIdentity("n"))
		w.check(err)
		short := certificates.ForClient("n")
		short.Life = 10 * time.Hour
		client, err := certificates.Open(file, own, short)
		w.check(err)
		var addresses atomic.Pointer[[]netip.Addr]
		addresses.Store(&[]netip.Addr{netip.MustParseAddr("10.0.0.1")})
		server, err := certificates.Open(filepath.Join(dir, "server.pem"), own, certificates.ForServer("n", func() ([]string, []netip.Addr) {
			return []string{"n"}, *addresses.Load()
		}))
		w.check(err)
		ctx, stop := context.WithCancel(w.ctx)
		ended := make(chan error)
		for _, certificate := range []*certificates.Certificate{client, server} {
			go func() { ended <- certificate.Run(ctx) }()
		}
		defer func() {
			stop()
			for range 2 {
				w.check(<-ended)
			}
		}()

		time.Sleep(time.Minute)
		if _, err := server.Current(); err == nil {
			t.Error("nobody has approved the server's certificate")
		}
		w.approveServing()
		if leaf := w.leaf(server); leaf.VerifyHostname("10.0.0.1") != nil || leaf.VerifyHostname("n") != nil {
			t.Errorf("the server's certificate is for %v %v", leaf.DNSNames, leaf.IPAddresses)
		}
		addresses.Store(&[]netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")})
		time.Sleep(2 * time.Minute)
		w.approveServing()
		if leaf := w.leaf(server); leaf.VerifyHostname("fd00::1") != nil {
			t.Errorf("the server's certificate is for %v %v", leaf.DNSNames, leaf.IPAddresses)
		}

		serials := map[string]bool{}
		for range 2 * 24 {
			time.Sleep(time.Hour)
			leaf := w.leaf(client)
			serials[leaf.SerialNumber.String()] = true
			if _, err := leaf.Verify(stdx509.VerifyOptions{Roots: authority.Pool(), KeyUsages: []stdx509.ExtKeyUsage{stdx509.ExtKeyUsageClientAuth}}); err != nil {
				t.Fatal(err)
			}
		}
		if len(serials) < 5 || len(serials) > 8 {
			t.Errorf("%d certificates in two days", len(serials))
		}
		kept, err := tls.LoadX509KeyPair(file, file)
		w.check(err)
		if kept.Leaf.SerialNumber.Cmp(w.leaf(client).SerialNumber) != 0 {
			t.Error("the file has another certificate")
		}
		if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
			t.Errorf("the file is %v, %v", info.Mode(), err)
		}
	})
}

func (w *world) leaf(c *certificates.Certificate) *stdx509.Certificate {
	w.t.Helper()
	current, err := c.Current()
	w.check(err)
	return current.Leaf
}

// approveServing approves the request for a node's server that waits for it.
func (w *world) approveServing() {
	w.t.Helper()
	list, err := w.cs.CertificatesV1().CertificateSigningRequests().List(w.ctx, metav1.ListOptions{})
	w.check(err)
	for i := range list.Items {
		if r := &list.Items[i]; r.Spec.SignerName == certificatesv1.KubeletServingSignerName && len(r.Status.Conditions) == 0 {
			w.check(w.decide(w.cs, r.Name, certificatesv1.CertificateApproved))
		}
	}
	time.Sleep(time.Minute)
}
