package x509_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	stdx509 "crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/authntest"
	"github.com/keelson-dev/keelson/authn/x509"
)

type authority struct {
	key  *ecdsa.PrivateKey
	cert *stdx509.Certificate
}

type subject struct {
	name   string
	groups []string
	uids   []string
	usage  stdx509.ExtKeyUsage // 0 is for any
	isCA   bool
	life   time.Duration // 0 is an hour
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func newAuthority(name string) *authority {
	a := &authority{key: must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))}
	a.cert = a.sign(subject{name: name, isCA: true, life: 24 * time.Hour}, a.key)
	return a
}

// sign issues a certificate for a key; the first is its own.
func (a *authority) sign(s subject, key *ecdsa.PrivateKey) *stdx509.Certificate {
	if s.life == 0 {
		s.life = time.Hour
	}
	template := &stdx509.Certificate{
		SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: s.name, Organization: s.groups},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(s.life),
		ExtKeyUsage: []stdx509.ExtKeyUsage{s.usage}, IsCA: s.isCA, BasicConstraintsValid: true, SubjectKeyId: []byte{0xab, 1},
	}
	for _, uid := range s.uids {
		template.Subject.ExtraNames = append(template.Subject.ExtraNames, pkix.AttributeTypeAndValue{Type: x509.UIDAttribute(), Value: uid})
	}
	parent := a.cert
	if parent == nil {
		parent = template
	}
	return must(stdx509.ParseCertificate(must(stdx509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, a.key))))
}

func (a *authority) issue(s subject) *stdx509.Certificate {
	if s.usage == 0 {
		s.usage = stdx509.ExtKeyUsageClientAuth
	}
	return a.sign(s, must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)))
}

func (a *authority) intermediate(name string) *authority {
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	return &authority{key: key, cert: a.sign(subject{name: name, isCA: true}, key)}
}

func (a *authority) pool() *stdx509.CertPool {
	pool := stdx509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

func request(certs ...*stdx509.Certificate) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.TLS = &tls.ConnectionState{PeerCertificates: certs}
	return r
}

func credentialID(cert *stdx509.Certificate) map[string][]string {
	sum := sha256.Sum256(cert.Raw)
	return map[string][]string{"authentication.kubernetes.io/credential-id": {"X509SHA256=" + hex.EncodeToString(sum[:])}}
}

func TestContract(t *testing.T) {
	ca, other := newAuthority("cluster"), newAuthority("another")
	between := ca.intermediate("between")
	ann, bob := ca.issue(subject{name: "ann", groups: []string{"dev", "ops"}}), between.issue(subject{name: "bob", uids: []string{"u-1"}})
	authntest.Run(t, x509.New(x509.Static{Roots: ca.pool()}), authntest.Samples{
		Good: []authntest.Sample{
			{Request: request(ann), Want: authn.Identity{Name: "ann", Groups: []string{"dev", "ops"}, Extra: credentialID(ann)}},
			{Request: request(bob, between.cert), Want: authn.Identity{Name: "bob", UID: "u-1", Extra: credentialID(bob)}},
		},
		Bad: []*http.Request{
			request(other.issue(subject{name: "ann"})),
			request(bob), // the intermediate authority's certificate is missing
			request(ca.issue(subject{name: "ann", usage: stdx509.ExtKeyUsageServerAuth})),
			request(ca.issue(subject{name: "ann", life: -time.Second})),
		},
		Foreign: []*http.Request{request(), request(ca.issue(subject{}))},
	})
	if id, err := x509.New(x509.Static{}).Authenticate(request(ann)); id != nil || !errors.Is(err, authn.ErrNoCredentials) {
		t.Errorf("without authorities: %v, %v", id, err)
	}
}

func TestErrors(t *testing.T) {
	ca := newAuthority("cluster")
	auth := x509.New(x509.Static{Roots: ca.pool()})
	odd := ca.issue(subject{name: "ann", uids: []string{"a"}})
	for i := range odd.Subject.Names {
		odd.Subject.Names[i].Value = 7 // the standard library's parser makes strings only
	}
	const named = "verifying certificate SN=7, SKID=AB:01, AKID=AB:01 failed: "
	for name, c := range map[string]struct {
		cert *stdx509.Certificate
		want string
		as   any
	}{
		"expired":           {ca.issue(subject{name: "ann", life: -time.Second}), named + "x509: certificate has expired or is not yet valid: current time ", new(stdx509.CertificateInvalidError)},
		"unknown authority": {newAuthority("x").issue(subject{name: "ann"}), named + "x509: certificate signed by unknown authority", new(stdx509.UnknownAuthorityError)},
		"for servers":       {ca.issue(subject{name: "ann", usage: stdx509.ExtKeyUsageServerAuth}), named + "x509: certificate specifies an incompatible key usage", new(stdx509.CertificateInvalidError)},
		"two UIDs":          {ca.issue(subject{name: "ann", uids: []string{"a", "b"}}), "bad UID in client certificate: expected 1 UID, but found multiple: [a b]", nil},
		"empty UID":         {ca.issue(subject{name: "ann", uids: []string{""}}), "bad UID in client certificate: UID cannot be an empty string", nil},
		"odd UID":           {odd, "bad UID in client certificate: unable to parse UID into a string", nil},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := auth.Authenticate(request(c.cert))
			if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Fatalf("got %v, want %s", err, c.want)
			}
			if c.as == nil {
				if !errors.Is(err, x509.ErrUID) {
					t.Errorf("%v is not ErrUID", err)
				}
			} else if failed := (*x509.Error)(nil); !errors.As(err, &failed) || !errors.As(err, c.as) {
				t.Errorf("%v is not %T", err, c.as)
			}
		})
	}
}

// A client that shows a bad certificate may be known by its token all the same.
func TestBadCertificateBesideAGoodToken(t *testing.T) {
	token := authn.Func(func(*http.Request) (*authn.Identity, error) { return &authn.Identity{Name: "bob"}, nil })
	auth := authn.Union(x509.New(x509.Static{Roots: newAuthority("cluster").pool()}), token)
	if id, err := auth.Authenticate(request(newAuthority("another").issue(subject{name: "ann"}))); err != nil || id.Name != "bob" {
		t.Errorf("got %v, %v; want bob", id, err)
	}
}

func TestExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ca := newAuthority("cluster")
		auth, r := x509.New(x509.Static{Roots: ca.pool()}), request(ca.issue(subject{name: "ann"}))
		if _, err := auth.Authenticate(r); err != nil {
			t.Errorf("at once: %v", err)
		}
		time.Sleep(61 * time.Minute)
		if _, err := auth.Authenticate(r); err == nil || !strings.Contains(err.Error(), "certificate has expired") {
			t.Errorf("after its life: %v", err)
		}
	})
}

func TestFile(t *testing.T) {
	var first, second *authority
	synctest.Test(t, func(*testing.T) { // at the time of the bubble below
		first, second = newAuthority("first"), newAuthority("second")
	})
	path := filepath.Join(t.TempDir(), "ca.crt")
	write := func(data []byte) {
		t.Helper()
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := x509.Open(path, x509.Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	write([]byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"))
	if _, err := x509.Open(path, x509.Options{}); !errors.Is(err, x509.ErrBundle) || !strings.HasPrefix(err.Error(), path+": malformed certificate bundle: PEM block 1: ") {
		t.Errorf("a broken file: %v", err)
	}
	write(first.pem())
	file, err := x509.Open(path, x509.Options{Interval: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	auth := x509.New(file)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- file.Run(ctx) }()
		for _, data := range [][]byte{second.pem(), []byte("gone")} {
			write(data)
			time.Sleep(2 * time.Second)
			if _, err := auth.Authenticate(request(second.issue(subject{name: "bob"}))); err != nil {
				t.Errorf("the new authority: %v", err)
			}
			if _, err := auth.Authenticate(request(first.issue(subject{name: "ann"}))); err == nil {
				t.Error("the old authority is still trusted")
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

func TestParse(t *testing.T) {
	ca := newAuthority("cluster")
	noise := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: []byte("x")})
	if pool, err := x509.Parse(append(noise, ca.pem()...)); err != nil || !pool.Equal(ca.pool()) {
		t.Errorf("a bundle with something else in it: %v", err)
	}
	headed := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Headers: map[string]string{"Proc-Type": "4,ENCRYPTED"}, Bytes: ca.cert.Raw})
	for _, empty := range [][]byte{nil, noise, []byte("hello"), headed} {
		if _, err := x509.Parse(empty); !errors.Is(err, x509.ErrBundle) {
			t.Errorf("%q: %v", empty, err)
		}
	}
}

// TestUIDAttribute: the attribute is the one that upstream's v1.37.1 reads.
func TestUIDAttribute(t *testing.T) {
	if got := x509.UIDAttribute().String(); got != "1.3.6.1.4.1.57683.2" {
		t.Errorf("got %s", got)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(newAuthority("cluster").pem())
	f.Add([]byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		pool, err := x509.Parse(in)
		if (pool == nil) != (err != nil) || err != nil && !errors.Is(err, x509.ErrBundle) {
			t.Errorf("%v, %v", pool, err)
		}
	})
}

// rotating are authorities that a test changes.
type rotating struct{ pool *stdx509.CertPool }

func (r *rotating) Pool() *stdx509.CertPool { return r.pool }

// TestConnection: a connection's requests are judged each as if it were the first, although the chain is verified
// only once.
func TestConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ca, other := newAuthority("cluster"), newAuthority("another")
		between := ca.intermediate("between") // valid for an hour
		trusted := &rotating{ca.pool()}
		auth := x509.New(trusted)
		ann, long := ca.issue(subject{name: "ann"}), between.issue(subject{name: "bob", life: 10 * time.Hour})
		connection, through := request(ann), request(long, between.cert)
		who := func(r *http.Request) string {
			id, err := auth.Authenticate(r)
			if (id == nil) == (err == nil) {
				t.Fatalf("%v, %v", id, err)
			}
			if err != nil {
				return ""
			}
			return id.Name
		}
		expect := func(when string, r *http.Request, want string) {
			t.Helper()
			if got := who(r); got != want {
				t.Errorf("%s: %q, want %q", when, got, want)
			}
		}
		again := func(r *http.Request) *http.Request { return r.WithContext(t.Context()) }
		expect("first", connection, "ann")
		first, _ := auth.Authenticate(again(connection))
		if second, _ := auth.Authenticate(again(connection)); first != second {
			t.Error("the certificate was judged anew")
		}
		expect("through an intermediate", through, "bob")

		trusted.pool = other.pool()
		expect("another authority", again(connection), "")
		trusted.pool = nil
		expect("none", again(connection), "")
		trusted.pool = ca.pool()
		expect("the first again, in a new pool", again(connection), "ann")

		copied := again(connection)
		copied.TLS.PeerCertificates = []*stdx509.Certificate{other.issue(subject{name: "eve"})}
		expect("other certificates under the same connection", copied, "")
		copied.TLS.PeerCertificates = []*stdx509.Certificate{ann}
		expect("and back", copied, "ann")

		time.Sleep(time.Hour)
		expect("in the last moment", again(connection), "ann")
		time.Sleep(time.Second)
		expect("expired", again(connection), "")
		expect("the intermediate expired", again(through), "")
	})
}

// TestConnectionsAreForgotten: what is remembered of connections ends with them.
func TestConnectionsAreForgotten(t *testing.T) {
	ca := newAuthority("cluster")
	auth := x509.New(x509.Static{Roots: ca.pool()})
	gone := make(chan struct{})
	func() {
		id, err := auth.Authenticate(request(ca.issue(subject{name: "ann"})))
		if err != nil {
			t.Fatal(err)
		}
		runtime.AddCleanup(id, func(struct{}) { close(gone) }, struct{}{})
	}()
	for {
		runtime.GC()
		select {
		case <-gone:
			runtime.KeepAlive(auth)
			return
		case <-t.Context().Done():
			t.Fatal("never forgotten")
		default:
			runtime.Gosched()
		}
	}
}

// TestConnectionOutlivesNoCertificate: what is remembered of a connection ends with the first certificate of its chain, whichever
// that is.
func TestConnectionOutlivesNoCertificate(t *testing.T) {
	for name, tt := range map[string]struct{ root, between, leaf time.Duration }{
		"leaf":         {3 * time.Hour, 2 * time.Hour, time.Hour},
		"intermediate": {3 * time.Hour, time.Hour, 2 * time.Hour},
		"root":         {time.Hour, 2 * time.Hour, 3 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ca := &authority{key: must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))}
				ca.cert = ca.sign(subject{name: "cluster", isCA: true, life: tt.root}, ca.key)
				key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
				between := &authority{key: key, cert: ca.sign(subject{name: "between", isCA: true, life: tt.between}, key)}
				auth := x509.New(x509.Static{Roots: ca.pool()})
				r := request(between.issue(subject{name: "ann", life: tt.leaf}), between.cert)
				for _, wait := range []time.Duration{0, time.Hour} { // its last moment is the last good one
					time.Sleep(wait)
					if id, err := auth.Authenticate(r); err != nil || id.Name != "ann" {
						t.Fatalf("%v later: %v, %v", wait, id, err)
					}
				}
				time.Sleep(time.Second)
				if id, err := auth.Authenticate(r); err == nil {
					t.Errorf("%v is still known", id.Name)
				}
			})
		})
	}
}

// TestConnectionWithoutItsIntermediate: the whole chain that was shown is compared, not the first certificate alone.
func TestConnectionWithoutItsIntermediate(t *testing.T) {
	ca := newAuthority("cluster")
	between := ca.intermediate("between")
	auth := x509.New(x509.Static{Roots: ca.pool()})
	r := request(between.issue(subject{name: "ann"}), between.cert)
	if _, err := auth.Authenticate(r); err != nil {
		t.Fatal(err)
	}
	r.TLS.PeerCertificates = r.TLS.PeerCertificates[:1]
	if id, err := auth.Authenticate(r); err == nil {
		t.Errorf("%v is known without the intermediate", id.Name)
	}
}
