package certificates_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"log/slog"
	"math"
	"math/big"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/node/certificates"
)

type request = certificatesv1.CertificateSigningRequest

// authority is an API server with a signer, which decides about each request as answer says.
type authority struct {
	t   *testing.T
	key *ecdsa.PrivateKey

	mu     sync.Mutex
	answer func(r *request)
	down   error // of creates
	lost   error // of reads
	asked  []*request
	tried  []time.Time // creates
	looked []time.Time // reads
}

func newAuthority(t *testing.T) *authority {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{t: t, key: key}
	a.answer = a.issue
	return a
}

func (a *authority) Create(_ context.Context, at client.Target, obj runtime.Object, _ metav1.CreateOptions) (runtime.Object, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tried = append(a.tried, time.Now())
	if a.down != nil {
		return nil, a.down
	}
	r := obj.(*request).DeepCopy()
	r.Name = r.GenerateName + string(rune('a'+len(a.asked)%26))
	if at.Resource.Resource != "certificatesigningrequests" || r.GenerateName != "csr-" {
		a.t.Errorf("created %v %+v", at, r)
	}
	a.asked = append(a.asked, r)
	return r, nil
}

func (a *authority) Get(_ context.Context, at client.Target) (runtime.Object, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.looked = append(a.looked, time.Now())
	if a.lost != nil {
		return nil, a.lost
	}
	for _, r := range slices.Backward(a.asked) {
		if r.Name == at.Name {
			a.answer(r)
			return r, nil
		}
	}
	return nil, apierrors.NewNotFound(at.Resource.GroupResource(), at.Name)
}

// set changes what the server does.
func (a *authority) set(change func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change()
}

// requests returns what was asked for.
func (a *authority) requests() []*request {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.asked)
}

// content returns what a request asks for.
func (a *authority) content(r *request) *x509.CertificateRequest {
	block, _ := pem.Decode(r.Spec.Request)
	asked, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil || asked.CheckSignature() != nil || block.Type != "CERTIFICATE REQUEST" {
		a.t.Error(err)
	}
	return asked
}

// issue approves a request and signs it for 100 hours.
func (a *authority) issue(r *request) {
	asked := a.content(r)
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(int64(len(a.asked))), Subject: asked.Subject, DNSNames: asked.DNSNames, IPAddresses: asked.IPAddresses,
		NotBefore: time.Now(), NotAfter: time.Now().Add(100 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, leaf, asked.PublicKey, a.key)
	if err != nil {
		a.t.Error(err)
	}
	condition(r, certificatesv1.CertificateApproved, corev1.ConditionTrue)
	r.Status.Certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func condition(r *request, kind certificatesv1.RequestConditionType, status corev1.ConditionStatus) {
	r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: kind, Status: status, Reason: "Why", Message: "so"}}
}

// run runs a test with a certificate that is kept, in virtual time.
func run(t *testing.T, o certificates.Options, test func(t *testing.T, a *authority, c *certificates.Certificate, file string)) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "pki", "node.pem")
	synctest.Test(t, func(t *testing.T) {
		a := newAuthority(t)
		c, err := certificates.Open(file, a, o)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- c.Run(ctx) }()
		test(t, a, c, file)
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func serial(t *testing.T, c *certificates.Certificate) int64 {
	t.Helper()
	now, err := c.Current()
	if err != nil {
		t.Fatal(err)
	}
	return now.Leaf.SerialNumber.Int64()
}

// TestReplaced: a certificate is replaced when 70 to 90 % of its life are over, at different times for different ones, and a
// new process goes on with the one in the file.
func TestReplaced(t *testing.T) {
	o := certificates.ForClient("n1")
	o.Life = 200 * time.Hour
	run(t, o, func(t *testing.T, a *authority, c *certificates.Certificate, file string) {
		synctest.Wait()
		var lives []time.Duration
		for want := int64(1); want < 20; want++ {
			begun := time.Now()
			for serial(t, c) == want {
				time.Sleep(time.Minute)
			}
			life := time.Since(begun)
			if life < 69*time.Hour || life > 91*time.Hour {
				t.Errorf("replaced after %v", life)
			}
			lives = append(lives, life)
		}
		if slices.Max(lives)-slices.Min(lives) < 5*time.Hour {
			t.Errorf("all are replaced after the same time: %v", lives)
		}
		r := a.requests()[0]
		asked := a.content(r)
		if r.Spec.SignerName != "kubernetes.io/kube-apiserver-client-kubelet" || !slices.Equal(r.Spec.Usages, []certificatesv1.KeyUsage{"digital signature", "client auth"}) ||
			*r.Spec.ExpirationSeconds != 720000 || asked.Subject.CommonName != "system:node:n1" || !slices.Equal(asked.Subject.Organization, []string{"system:nodes"}) {
			t.Errorf("asked for %+v, %+v", r.Spec, asked.Subject)
		}
		if bytes.Equal(r.Spec.Request, a.requests()[1].Spec.Request) {
			t.Error("the key is kept")
		}
		if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
			t.Errorf("the file: %v, %v", info, err)
		}
		if info, err := os.Stat(filepath.Dir(file)); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("its directory: %v, %v", info, err)
		}
		again, err := certificates.Open(file, a, o)
		if err != nil || serial(t, again) != serial(t, c) {
			t.Error(err)
		}
	})
}

// text is a log.
type text struct {
	mu sync.Mutex
	b  strings.Builder
}

func (t *text) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.Write(p)
}

func (t *text) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.String()
}

// TestTroubles: what fails is tried again, more and more slowly, and the certificate in use stays until it ends.
func TestTroubles(t *testing.T) {
	var log text
	o := certificates.ForClient("n1")
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	run(t, o, func(t *testing.T, a *authority, c *certificates.Certificate, _ string) {
		synctest.Wait()
		a.set(func() { a.down = errors.New("no server") })
		time.Sleep(99 * time.Hour)
		if serial(t, c) != 1 || !strings.Contains(log.String(), "no server") {
			t.Error(log.String())
		}
		failures := strings.Count(log.String(), "no server")
		time.Sleep(30 * time.Minute)
		if more := strings.Count(log.String(), "no server") - failures; more < 13 || more > 15 {
			t.Errorf("%d attempts in half an hour", more)
		}
		time.Sleep(time.Hour)
		if _, err := c.Current(); !errors.Is(err, certificates.ErrNone) {
			t.Errorf("after its end: %v", err)
		}
		a.set(func() { a.down = nil })
		time.Sleep(3 * time.Minute)
		serial(t, c)
	})
}

// pauses returns how long it took from each time to the next.
func pauses(times []time.Time) []time.Duration {
	var all []time.Duration
	for i := 1; i < len(times); i++ {
		all = append(all, times[i].Sub(times[i-1]))
	}
	return all
}

// TestPauses: how long it waits between looks, and between attempts.
func TestPauses(t *testing.T) {
	run(t, certificates.ForClient("n1"), func(t *testing.T, a *authority, c *certificates.Certificate, _ string) {
		a.set(func() { a.down = errors.New("no server") })
		expect := func(want ...time.Duration) {
			t.Helper()
			a.set(func() {
				got := pauses(a.tried)
				for i := range want {
					want[i] *= time.Second
				}
				if !slices.Equal(got, want) {
					t.Errorf("attempts after %v, want %v", got, want)
				}
				a.tried = nil
			})
		}
		time.Sleep(400 * time.Second)
		expect(2, 4, 8, 16, 32, 64, 128, 128)
		a.set(func() { a.down, a.answer = nil, func(*request) {} })
		time.Sleep(15 * time.Minute)
		a.set(func() {
			got := pauses(a.looked)[:10]
			for i, want := range []time.Duration{1, 2, 4, 8, 16, 32, 64, 100, 100, 100} {
				if got[i] != want*time.Second/10 {
					t.Errorf("looks after %v", got)
					break
				}
			}
			a.answer = a.issue
		})
		time.Sleep(5 * time.Minute)
		serial(t, c)
		// After a success it begins anew.
		a.set(func() { a.down, a.tried = errors.New("no server"), nil })
		for {
			time.Sleep(time.Second)
			var begun bool
			a.set(func() { begun = len(a.tried) > 0 })
			if begun {
				break
			}
		}
		time.Sleep(15 * time.Second)
		expect(2, 4, 8)
	})
}

// TestContent: a certificate is replaced as soon as it should say something else.
func TestContent(t *testing.T) {
	var mu sync.Mutex
	name, groups := "a", []string{"x", "y"}
	o := certificates.Options{Life: 200 * 365 * 24 * time.Hour, Template: func() *x509.CertificateRequest {
		mu.Lock()
		defer mu.Unlock()
		return &x509.CertificateRequest{Subject: pkix.Name{CommonName: name, Organization: slices.Clone(groups)}, DNSNames: []string{"n", "n"}}
	}}
	run(t, o, func(t *testing.T, a *authority, _ *certificates.Certificate, _ string) {
		for i, change := range []func(){
			func() {}, func() { name = "b" }, func() { groups = []string{"x"} }, func() { groups = []string{"z"} },
		} {
			mu.Lock()
			change()
			mu.Unlock()
			time.Sleep(time.Minute + time.Second)
			if n := len(a.requests()); n != i+1 {
				t.Errorf("%d requests after %d changes", n, i)
			}
		}
		if s := a.requests()[0].Spec; *s.ExpirationSeconds != math.MaxInt32 {
			t.Errorf("asked for %d seconds", *s.ExpirationSeconds)
		}
	})
}

// TestUnwritable: a certificate that cannot be kept is not used.
func TestUnwritable(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	a := newAuthority(t)
	c, err := certificates.Open(filepath.Join(dir, "pki", "node.pem"), a, certificates.ForClient("n1"))
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range []func() error{
		func() error { return os.Symlink(filepath.Join(dir, "file"), filepath.Join(dir, "pki")) },
		func() error { return os.MkdirAll(filepath.Join(dir, "pki", "node.pem", "x"), 0o700) },
	} {
		if err := errors.Join(os.RemoveAll(filepath.Join(dir, "pki")), block()); err != nil {
			t.Fatal(err)
		}
		if err := c.Renew(t.Context()); err == nil {
			t.Error("it says that it is written")
		}
		if _, err := c.Current(); !errors.Is(err, certificates.ErrNone) {
			t.Errorf("it is used: %v", err)
		}
	}
}

// TestRefused: what becomes of a request is told.
func TestRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "node.pem")
	synctest.Test(t, func(t *testing.T) {
		a := newAuthority(t)
		c, err := certificates.Open(file, a, certificates.ForClient("n1"))
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range []struct {
			answer     func(*request)
			is         error
			want       string
			after      time.Duration
			down, lost error
		}{
			{answer: func(r *request) { condition(r, "Denied", "True") }, is: certificates.ErrDenied, want: "the certificate signing request was denied: Why: so"},
			{answer: func(r *request) { condition(r, "Failed", "True") }, is: certificates.ErrFailed, want: "the certificate signing request failed: Why: so"},
			{answer: func(r *request) { condition(r, "Denied", "False") }, is: context.DeadlineExceeded, want: "has not been signed in time", after: 15 * time.Minute},
			{answer: func(r *request) { condition(r, "Approved", "True") }, is: context.DeadlineExceeded, want: "has not been signed in time", after: 15 * time.Minute},
			{answer: func(r *request) { a.issue(r); r.Status.Conditions = nil }, is: context.DeadlineExceeded, want: "has not been signed in time", after: 15 * time.Minute},
			{answer: func(r *request) { a.issue(a.asked[0]); r.Status = a.asked[0].Status }, want: "the certificate that was issued: tls: private key does not match public key"},
			{answer: a.issue, down: errors.New("no server"), want: "cannot create certificate signing request: no server"},
			{answer: a.issue, lost: errors.New("no server"), want: "no server"},
		} {
			a.answer, a.down, a.lost = x.answer, x.down, x.lost
			begun := time.Now()
			err := c.Renew(t.Context())
			if err == nil || x.is != nil && !errors.Is(err, x.is) || !strings.Contains(err.Error(), x.want) || time.Since(begun) != x.after {
				t.Errorf("after %v: %v, want %s", time.Since(begun), err, x.want)
			}
			if _, err := c.Current(); !errors.Is(err, certificates.ErrNone) || !strings.Contains(err.Error(), file) {
				t.Error(err)
			}
		}
	})
}

// TestServer: the certificate of a node's server follows its names and addresses, and waits until these are known.
func TestServer(t *testing.T) {
	var mu sync.Mutex
	var hosts []string
	var addresses []netip.Addr
	o := certificates.ForServer("n1", func() ([]string, []netip.Addr) {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(hosts), slices.Clone(addresses)
	})
	run(t, o, func(t *testing.T, a *authority, c *certificates.Certificate, _ string) {
		time.Sleep(time.Hour)
		if len(a.requests()) > 0 {
			t.Error("it asks for a certificate of nothing")
		}
		if err := c.Renew(t.Context()); err == nil {
			t.Error("it asks for a certificate of nothing")
		}
		for i, change := range []func(){
			func() { hosts = []string{"n1", "n1.example.com"} },
			func() { addresses = []netip.Addr{netip.MustParseAddr("10.0.0.1")} },
			func() { addresses = []netip.Addr{netip.MustParseAddr("10.0.0.2")} },
			func() { addresses = append(addresses, netip.MustParseAddr("fd00::1")) },
			func() { hosts = []string{"n1"} },
		} {
			mu.Lock()
			change()
			mu.Unlock()
			time.Sleep(2 * time.Minute)
			now, err := c.Current()
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range hosts {
				if err := now.Leaf.VerifyHostname(name); err != nil {
					t.Error(err)
				}
			}
			for _, ip := range addresses {
				if err := now.Leaf.VerifyHostname(ip.String()); err != nil {
					t.Error(err)
				}
			}
			if len(a.requests()) != i+1 || len(now.Leaf.DNSNames) != len(hosts) || len(now.Leaf.IPAddresses) != len(addresses) {
				t.Errorf("%d requests; it is for %v %v", len(a.requests()), now.Leaf.DNSNames, now.Leaf.IPAddresses)
			}
			mu.Lock()
			slices.Reverse(hosts)
			slices.Reverse(addresses)
			mu.Unlock()
			time.Sleep(time.Hour)
			if len(a.requests()) != i+1 {
				t.Error("the order counts")
			}
		}
		if s := a.requests()[0].Spec; s.SignerName != "kubernetes.io/kubelet-serving" || !slices.Equal(s.Usages, []certificatesv1.KeyUsage{"digital signature", "server auth"}) || s.ExpirationSeconds != nil {
			t.Errorf("asked for %+v", s)
		}
	})
}

// TestBadFile: a file that has no certificate is an error that says what to do.
func TestBadFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "node.pem")
	if err := os.WriteFile(file, []byte("secret nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := certificates.Open(file, nil, certificates.ForClient("n1"))
	if err == nil || !strings.HasPrefix(err.Error(), file+": ") || !strings.Contains(err.Error(), "without the file") || strings.Contains(err.Error(), "secret") {
		t.Error(err)
	}
	if _, err := certificates.Open(filepath.Dir(file), nil, certificates.ForClient("n1")); err == nil {
		t.Error("a directory is taken for a file")
	}
}
