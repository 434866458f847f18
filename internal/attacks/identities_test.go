package attacks

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"path/filepath"
	"strings"
	"time"

	"github.com/keelson-dev/keelson/pki"
)

// impersonation tries to act as others.
func (w *world) impersonation() {
	const pod = "/api/v1/namespaces/pub/pods/mine"
	may := w.people["impersonator"]
	w.works("impersonator as reader", may, request(may, "GET", pod, "", "Impersonate-User: reader"))
	for _, who := range []string{"anonymous", "mallory", "reader", "impersonator", "node-0"} {
		for _, headers := range [][]string{
			{"Impersonate-User: admin"}, {"Impersonate-User: system:admin"}, {"Impersonate-User: system:node:node-1", "Impersonate-Group: system:nodes"}, {"impersonate-user: admin"}, {"IMPERSONATE-USER: admin"},
			{"Impersonate-User: reader", "Impersonate-Group: system:masters"}, {"Impersonate-Group: system:masters"}, {"Impersonate-Uid: x"}, {"Impersonate-Extra-Scopes: all"}, {"Impersonate-User: reader", "Impersonate-Uid: uid-of-admin"},
			{"Impersonate-User: reader", "Impersonate-Extra-authentication.kubernetes.io%2fcredential-id: x"}, {"Impersonate-User: system:serviceaccount:kube-system:default"}, {"Impersonate-User: system:serviceaccount:vault:default"},
			{"Impersonate-User: reader", "Impersonate-User: admin"}, {"Impersonate-User: admin", "Impersonate-User: reader"}, {"Impersonate-User: reader", "Impersonate-Group: system:authenticated", "Impersonate-Group: system:masters"},
			{"Impersonate-User:", "Impersonate-Group: system:masters"}, {"Impersonate-User: system:kube-controller-manager"}, {"Impersonate-User: system:kube-scheduler"}, {"Impersonate-User: system:apiserver"}, {"Impersonate-User: Reader"},
		} {
			w.refused(fmt.Sprint(who, headers), w.people[who], request(w.people[who], "GET", secret, "", headers...))
		}
	}
}

// headers tries headers that other servers believe, and requests that two servers read differently.
func (w *world) headers() {
	mallory := w.people["mallory"]
	for _, headers := range [][]string{
		{"X-Remote-User: admin", "X-Remote-Group: system:masters"}, {"x-remote-user: system:admin", "x-remote-group: system:masters"}, {"X_Remote_User: admin", "X_Remote_Group: system:masters"},
		{"X-Remote-User: admin", "X-Remote-Group: system:masters", "X-Remote-Extra-Scopes: x", "X-Remote-Uid: y"}, {"X-Forwarded-User: admin"}, {"X-Auth-User: admin"}, {"X-Real-IP: 127.0.0.1"}, {"X-Forwarded-For: 127.0.0.1"},
		{"X-Original-URL: " + secret}, {"X-Rewrite-URL: " + secret}, {"X-Forwarded-Prefix: " + secret}, {"Forwarded: for=127.0.0.1;host=admin"}, {"X-Forwarded-Client-Cert: Subject=\"O=system:masters,CN=admin\""}, {"X-SSL-Client-S-DN: CN=admin,O=system:masters"},
		{"Authorization: Basic YWRtaW46YWRtaW4="}, {"Authorization: Bearer"}, {"Authorization: bearer token-of-admin"}, {"Authorization: Negotiate YWRtaW4="}, {"Cookie: user=admin; token=admin"}, {"Proxy-Authorization: Bearer admin"},
		{"Connection: Authorization"}, {"Connection: X-Remote-User", "X-Remote-User: admin"}, {"Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io.YWRtaW4, v4.channel.k8s.io", "Upgrade: websocket"},
	} {
		for _, who := range []string{"anonymous", "mallory"} {
			w.refused(fmt.Sprint(who, headers), w.people[who], request(w.people[who], "GET", secret, "", headers...))
		}
		// A node is no front proxy either.
		w.refused(fmt.Sprint("node-0", headers), w.people["node-0"], request(w.people["node-0"], "GET", secret, "", headers...))
	}
	inner := "GET " + secret + " HTTP/1.1\r\nHost: cluster\r\n\r\n"
	for name, raw := range map[string]string{
		"length and chunks":       request(mallory, "POST", secret, "", "Transfer-Encoding: chunked", fmt.Sprintf("Content-Length: %d", len(inner)+5)) + "0\r\n\r\n" + inner,
		"two lengths":             request(mallory, "POST", secret, "", "Content-Length: 0", fmt.Sprintf("Content-Length: %d", len(inner))) + inner,
		"a list of lengths":       request(mallory, "POST", secret, "", "Content-Length: 0, 10") + inner,
		"a negative length":       request(mallory, "POST", secret, "", "Content-Length: -1") + inner,
		"a signed length":         request(mallory, "POST", secret, "", "Content-Length: +10") + inner,
		"another coding":          request(mallory, "POST", secret, "", "Transfer-Encoding: chunked, identity") + inner,
		"a coding in disguise":    request(mallory, "POST", secret, "", "Transfer-Encoding: \x0bchunked") + inner,
		"a coding with a space":   request(mallory, "POST", secret, "", "Transfer-Encoding : chunked") + "0\r\n\r\n" + inner,
		"two codings":             request(mallory, "POST", secret, "", "Transfer-Encoding: chunked", "Transfer-Encoding: gzip") + inner,
		"a huge chunk":            request(mallory, "POST", secret, "", "Transfer-Encoding: chunked") + "ffffffffffffffffff\r\n" + inner,
		"a folded header":         request(mallory, "GET", secret, "", "X-A: b\r\n X-Remote-User: admin"),
		"a header with a newline": request(mallory, "GET", secret, "", "X-A: b\nX-Remote-User: admin\nX-Remote-Group: system:masters"),
		"a header with a return":  request(mallory, "GET", secret, "", "X-A: b\rX-Remote-User: admin"),
		"a name with a space":     request(mallory, "GET", secret, "", "X-Remote-User : admin"),
		"a name with a null":      request(mallory, "GET", secret, "", "X-Remote-User\x00: admin"),
		"two hosts":               request(mallory, "GET", secret, "", "Host: 127.0.0.1"),
		"HTTP/0.9":                "GET " + secret + "\r\n\r\n",
		"HTTP/1.0":                "GET " + secret + " HTTP/1.0\r\n\r\n",
		"HTTP/1.9":                "GET " + secret + " HTTP/1.9\r\nHost: cluster\r\n\r\n",
		"HTTP/3.0":                "GET " + secret + " HTTP/3.0\r\nHost: cluster\r\n\r\n",
		"two spaces":              "GET  " + secret + " HTTP/1.1\r\nHost: cluster\r\n\r\n",
		"a tab":                   "GET\t" + secret + "\tHTTP/1.1\r\nHost: cluster\r\n\r\n",
		"no host":                 "GET " + secret + " HTTP/1.1\r\n\r\n",
		"a preface in clear":      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
	} {
		w.refused(name, mallory, raw)
	}
	w.pipelined(inner)
}

// pipelined sends a second request behind one that is refused, or whose body nobody reads: it must be refused, too.
func (w *world) pipelined(inner string) {
	for name, first := range map[string]string{
		"behind a get":          "GET /version HTTP/1.1\r\nHost: cluster\r\n\r\n",
		"as a body":             fmt.Sprintf("POST /version HTTP/1.1\r\nHost: cluster\r\nContent-Length: %d\r\n\r\n", len(inner)),
		"as a body of a get":    fmt.Sprintf("GET /version HTTP/1.1\r\nHost: cluster\r\nContent-Length: %d\r\n\r\n", len(inner)),
		"behind an expectation": "POST " + secret + " HTTP/1.1\r\nHost: cluster\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n",
	} {
		w.attempts.Add(1)
		conn, err := w.dial(identity{})
		w.check(err)
		_, err = conn.Write([]byte(first + inner))
		w.check(err)
		w.check(conn.SetReadDeadline(time.Now().Add(300 * time.Millisecond)))
		var all strings.Builder
		buffer := make([]byte, 4096)
		for {
			n, err := conn.Read(buffer)
			all.Write(buffer[:n])
			if err != nil {
				break
			}
		}
		_ = conn.Close()
		if strings.Contains(all.String(), encodedCanary()) {
			w.t.Errorf("%s: got through: %q", name, all.String())
		}
	}
}

// certificates tries those that the cluster's authority has not issued to a client, or not for that.
func (w *world) certificates() {
	dir := filepath.Join(w.dir, "data", "pki")
	own, err := pki.Open(dir, "")
	w.check(err)
	good := w.issue(own, pki.Subject{Name: "somebody", Groups: []string{"system:masters"}})
	w.works("a certificate", good, request(good, "GET", secret, ""))

	master := pki.Subject{Name: "admin", Groups: []string{"system:masters"}}
	foreign, err := pki.New("kubernetes-ca")
	w.check(err)
	front, err := pki.OpenFrontProxy(dir)
	w.check(err)
	server := master
	server.Hosts = []string{"127.0.0.1"}
	tries := map[string]identity{
		"another authority of that name": w.issue(foreign, master), "the front proxy's authority": w.issue(front, master), "a server's certificate": w.issue(own, server),
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	w.check(err)
	now := time.Now()
	template := func(change func(*x509.Certificate)) *x509.Certificate {
		c := &x509.Certificate{
			SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "admin", Organization: []string{"system:masters"}},
			NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, BasicConstraintsValid: true,
		}
		change(c)
		return c
	}
	// By the attacker's own key, and by one whose certificate of the cluster is not an authority's.
	node := w.people["node-0"].certificate
	parent, err := x509.ParseCertificate(node.Certificate[0])
	w.check(err)
	self := template(func(c *x509.Certificate) { c.IsCA = true; c.KeyUsage |= x509.KeyUsageCertSign })
	raw, err := x509.CreateCertificate(rand.Reader, self, self, &key.PublicKey, key)
	w.check(err)
	tries["by itself"] = identity{certificate: &tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}}
	leaf := template(func(*x509.Certificate) {})
	raw, err = x509.CreateCertificate(rand.Reader, leaf, parent, &key.PublicKey, node.PrivateKey)
	w.check(err)
	tries["by a node"] = identity{certificate: &tls.Certificate{Certificate: [][]byte{raw, node.Certificate[0]}, PrivateKey: key}}
	block, _ := pem.Decode(own.PEM())
	tries["by a node, with the authority's"] = identity{certificate: &tls.Certificate{Certificate: [][]byte{raw, node.Certificate[0], block.Bytes}, PrivateKey: key}}
	tries["the authority's without its key"] = identity{certificate: &tls.Certificate{Certificate: [][]byte{block.Bytes}, PrivateKey: key}}
	tries["the administrator's without its key"] = identity{certificate: &tls.Certificate{Certificate: w.people["admin"].certificate.Certificate, PrivateKey: key}}
	// By the cluster's authority, but not valid for this.
	for name, change := range map[string]func(*x509.Certificate){
		"expired": func(c *x509.Certificate) { c.NotAfter = now.Add(-time.Minute) }, "not yet valid": func(c *x509.Certificate) { c.NotBefore = now.Add(time.Minute) },
		"for servers": func(c *x509.Certificate) {
			c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
			c.DNSNames = []string{"x"}
		},
		"for signing code": func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning} },
	} {
		tries[name] = w.signed(own, template(change), key)
	}
	plain := w.signed(own, template(func(*x509.Certificate) {}), key)
	w.works("the same certificate, unchanged", plain, request(plain, "GET", secret, ""))
	for name, who := range tries {
		for _, target := range []string{secret, "/api/v1/namespaces/vault/secrets", "/apis/rbac.authorization.k8s.io/v1/clusterroles"} {
			w.refused("certificate: "+name, who, request(who, "GET", target, ""))
			w.refused("certificate and headers: "+name, who, request(who, "GET", target, "", "X-Remote-User: admin", "X-Remote-Group: system:masters"))
		}
	}
	w.cleartext()
}

// signed returns an identity whose certificate the authority made from a template.
func (w *world) signed(by *pki.Authority, template *x509.Certificate, key *ecdsa.PrivateKey) identity {
	w.t.Helper()
	text, err := by.Sign(template, &key.PublicKey)
	w.check(err)
	block, _ := pem.Decode(text)
	if block == nil {
		w.t.Fatalf("a certificate that is not PEM: %s", text)
	}
	return identity{certificate: &tls.Certificate{Certificate: [][]byte{block.Bytes}, PrivateKey: key}}
}

// cleartext talks to the port without TLS.
func (w *world) cleartext() {
	w.attempts.Add(1)
	conn, err := (&net.Dialer{}).DialContext(w.t.Context(), "tcp", w.address)
	w.check(err)
	defer func() { _ = conn.Close() }()
	w.check(conn.SetDeadline(time.Now().Add(patience)))
	_, err = conn.Write([]byte(request(w.people["reader"], "GET", "/api/v1/namespaces/pub/pods/mine", "")))
	w.check(err)
	buffer := make([]byte, 4096)
	n, _ := conn.Read(buffer)
	if got := string(buffer[:n]); strings.Contains(got, " 200 ") || strings.Contains(got, "mine") {
		w.t.Errorf("without TLS: %q", got)
	}
}
