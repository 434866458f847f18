package csrsigning_test

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/csrsigning"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/lifecycle"
	"github.com/keelson-dev/keelson/pki"
)

var requests = certificatesv1.SchemeGroupVersion.WithResource("certificatesigningrequests")

type request = certificatesv1.CertificateSigningRequest

// bench is a running controller with an API, in a bubble.
type bench struct {
	*testing.T
	api       *controllerstest.API
	authority *pki.Authority
	key       ed25519.PrivateKey // of requests
}

func inBubble(t *testing.T, o csrsigning.Options, test func(*bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		authority, err := pki.New("kubernetes")
		if err != nil {
			t.Fatal(err)
		}
		_, key, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		b := &bench{T: t, api: controllerstest.Start(t, controllerstest.Options{}), authority: authority, key: key}
		in := csrsigning.Sources{Requests: informer.New(controllerstest.Source[*request](b.api, requests),
			informer.Options{DetectMutations: func(err error) { t.Error(err) }})}
		controllerstest.Go(t, in.Requests, controllers.NewLoop(csrsigning.New(in, b.api, authority, o), controllers.Options{}))
		synctest.Wait()
		test(b)
	})
}

// asking returns a kubelet's request, for a signer.
func asking(key crypto.Signer, signer string, change func(*x509.CertificateRequest), usages ...certificatesv1.KeyUsage) *request {
	template := &x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:n", Organization: []string{"system:nodes"}}}
	if change != nil {
		change(template)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		panic(err)
	}
	return &request{
		ObjectMeta: metav1.ObjectMeta{Name: "r"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), SignerName: signer,
			Usages: append(usages, certificatesv1.UsageDigitalSignature),
		},
	}
}

// decide creates a request and gives it a condition.
func (b *bench) decide(r *request, conditions ...certificatesv1.RequestConditionType) *request {
	b.Helper()
	ctx := b.Context()
	made, err := client.As[*request](b.api.Others.Create(ctx, client.Target{Resource: requests}, r, metav1.CreateOptions{}))
	if err != nil {
		b.Fatal(err)
	}
	synctest.Wait() // until the controller has seen it, so that each state is reconciled once
	made = made.DeepCopy()
	for _, kind := range conditions {
		made.Status.Conditions = append(made.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{Type: kind, Status: corev1.ConditionTrue})
	}
	if _, err := b.api.Others.Update(ctx, client.Target{Resource: requests, Name: r.Name, Subresource: "approval"}, made, metav1.UpdateOptions{}); err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
	return b.get()
}

func (b *bench) get() *request {
	b.Helper()
	r, err := client.As[*request](b.api.Others.Get(b.Context(), client.Target{Resource: requests, Name: "r"}))
	if err != nil {
		b.Fatal(err)
	}
	return r
}

// certificate reads the certificate of a request, or fails the test.
func (b *bench) certificate(r *request) *x509.Certificate {
	b.Helper()
	block, rest := pem.Decode(r.Status.Certificate)
	if block == nil || block.Type != "CERTIFICATE" || len(rest) > 0 {
		b.Fatalf("no certificate: %q, %+v", r.Status.Certificate, r.Status.Conditions)
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := c.Verify(x509.VerifyOptions{Roots: b.authority.Pool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil {
		b.Error(err)
	}
	return c
}

func dns(r *x509.CertificateRequest) { r.DNSNames = []string{"n"} }

func named(name string) func(*x509.CertificateRequest) {
	return func(r *x509.CertificateRequest) { r.Subject = pkix.Name{CommonName: name} }
}

const (
	serving, kubelet = certificatesv1.KubeletServingSignerName, certificatesv1.KubeAPIServerClientKubeletSignerName
	clients          = certificatesv1.KubeAPIServerClientSignerName
	clientAuth       = certificatesv1.UsageClientAuth
	serverAuth       = certificatesv1.UsageServerAuth
)

func TestSigners(t *testing.T) {
	for name, tt := range map[string]struct {
		signer string
		change func(*x509.CertificateRequest)
		usages []certificatesv1.KeyUsage
		failed string // the message; "-" if it is left alone
	}{
		"a kubelet's server":             {serving, dns, []certificatesv1.KeyUsage{serverAuth}, ""},
		"not a kubelet's server":         {serving, nil, []certificatesv1.KeyUsage{serverAuth}, "DNS or IP subjectAltName is required"},
		"a kubelet":                      {kubelet, nil, []certificatesv1.KeyUsage{clientAuth}, ""},
		"not a kubelet":                  {kubelet, named("ann"), []certificatesv1.KeyUsage{clientAuth}, "subject organization is not system:nodes"},
		"a user":                         {clients, named("ann"), []certificatesv1.KeyUsage{clientAuth, certificatesv1.UsageKeyEncipherment}, ""},
		"a user who is not a client":     {clients, named("ann"), nil, "missing required usage for client certificate: client auth"},
		"a user who would like to serve": {clients, named("ann"), []certificatesv1.KeyUsage{clientAuth, serverAuth}, "invalid usage for client certificate: server auth"},
		"of another signer":              {"example.com/ca", named("ann"), []certificatesv1.KeyUsage{clientAuth}, "-"},
		"of another of ours":             {"kubernetes.io/other", named("ann"), []certificatesv1.KeyUsage{clientAuth}, "-"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, csrsigning.Options{}, func(b *bench) {
				r := b.decide(asking(b.key, tt.signer, tt.change, tt.usages...), "Approved")
				switch tt.failed {
				case "":
					b.certificate(r)
				case "-":
					if len(r.Status.Conditions) != 1 || r.Status.Certificate != nil {
						t.Errorf("it became %+v", r.Status)
					}
				default:
					time.Sleep(time.Hour)
					synctest.Wait()
					r = b.get()
					if len(r.Status.Conditions) != 2 || r.Status.Certificate != nil {
						t.Fatalf("it became %+v", r.Status)
					}
					c := r.Status.Conditions[1]
					if c.Type != "Failed" || c.Status != "True" || c.Reason != "SignerValidationFailure" || c.Message != tt.failed || c.LastUpdateTime.IsZero() {
						t.Errorf("it has %+v", c)
					}
				}
			})
		})
	}
	if got, want := csrsigning.Signers(), []string{serving, kubelet, clients, "kubernetes.io/legacy-unknown"}; !slices.Equal(got, want) {
		t.Errorf("signers %q", got)
	}
}

// TestDecisions: only what was approved, and neither denied nor given up, is signed.
func TestDecisions(t *testing.T) {
	inBubble(t, csrsigning.Options{}, func(b *bench) {
		if r := b.decide(asking(b.key, kubelet, nil, clientAuth)); r.Status.Certificate != nil {
			t.Error("signed without approval")
		}
	})
	inBubble(t, csrsigning.Options{}, func(b *bench) {
		if r := b.decide(asking(b.key, kubelet, nil, clientAuth), "Denied"); r.Status.Certificate != nil {
			t.Error("signed what was denied")
		}
	})
	inBubble(t, csrsigning.Options{}, func(b *bench) {
		if r := b.decide(asking(b.key, kubelet, nil, clientAuth), "Failed", "Approved"); r.Status.Certificate != nil {
			t.Error("signed what had failed")
		}
	})
}

// TestCertificate: what was asked for is in the certificate, except for extensions.
func TestCertificate(t *testing.T) {
	inBubble(t, csrsigning.Options{}, func(b *bench) {
		ca, err := asn1.Marshal(struct{ CA bool }{true})
		if err != nil {
			t.Fatal(err)
		}
		r := b.decide(asking(b.key, serving, func(r *x509.CertificateRequest) {
			r.DNSNames, r.IPAddresses = []string{"n"}, []net.IP{net.IPv4(10, 0, 0, 1).To4()}
			r.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 19}, Critical: true, Value: ca}}
		}, serverAuth, certificatesv1.UsageKeyEncipherment), "Approved")
		c := b.certificate(r)
		if c.Subject.CommonName != "system:node:n" || !slices.Equal(c.Subject.Organization, []string{"system:nodes"}) ||
			!slices.Equal(c.DNSNames, []string{"n"}) || len(c.IPAddresses) != 1 || !c.IPAddresses[0].Equal(net.IPv4(10, 0, 0, 1)) {
			t.Errorf("it is for %v, %v, %v", c.Subject, c.DNSNames, c.IPAddresses)
		}
		if c.IsCA || !c.BasicConstraintsValid {
			t.Error("it is an authority's")
		}
		if c.KeyUsage != x509.KeyUsageDigitalSignature|x509.KeyUsageKeyEncipherment || !slices.Equal(c.ExtKeyUsage, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}) {
			t.Errorf("it is for %v, %v", c.KeyUsage, c.ExtKeyUsage)
		}
		if !b.key.Public().(ed25519.PublicKey).Equal(c.PublicKey) {
			t.Error("it is for another key")
		}
	})
}

// TestLife: a certificate lasts as long as was asked for, within limits.
func TestLife(t *testing.T) {
	const minute, hour, year = 60, 60 * 60, 365 * 24 * time.Hour
	for _, tt := range []struct {
		asked   *int32
		longest time.Duration
		want    time.Duration // from now on
	}{
		{nil, 0, year - 5*time.Minute},
		{new(int32(hour)), 0, time.Hour},
		{new(int32(10 * minute)), 0, 10 * time.Minute},
		{new(int32(8*hour - 1)), 0, 8*time.Hour - time.Second},
		{new(int32(8 * hour)), 0, 8*time.Hour - 5*time.Minute},
		{new(int32(400 * 24 * hour)), 0, year - 5*time.Minute},
		{nil, time.Hour, time.Hour},
		{new(int32(2 * hour)), time.Hour, time.Hour},
		{nil, 20 * year, 10 * 365 * 24 * time.Hour}, // the authority's
	} {
		inBubble(t, csrsigning.Options{Life: tt.longest}, func(b *bench) {
			r := asking(b.key, kubelet, nil, clientAuth)
			r.Spec.ExpirationSeconds = tt.asked
			c, now := b.certificate(b.decide(r, "Approved")), time.Now()
			if got := c.NotAfter.Sub(now).Round(time.Second); got != tt.want || c.NotBefore.Sub(now).Round(time.Second) != -5*time.Minute {
				t.Errorf("%v, %v: from %v to %v, want %v", tt.asked, tt.longest, c.NotBefore.Sub(now), got, tt.want)
			}
		})
	}
}

// TestFailures: failed requests to the server are made again.
func TestFailures(t *testing.T) {
	for _, name := range []string{"system:node:n", "ann"} {
		inBubble(t, csrsigning.Options{}, func(b *bench) {
			b.api.Inject(faults.Fault{Verb: faults.Update, Err: errors.New("down")})
			r := b.decide(asking(b.key, kubelet, func(r *x509.CertificateRequest) { r.Subject.CommonName = name }, clientAuth), "Approved")
			if len(r.Status.Conditions) != 1 || r.Status.Certificate != nil {
				t.Fatalf("it became %+v", r.Status)
			}
			time.Sleep(200 * time.Millisecond)
			synctest.Wait()
			if r := b.get(); len(r.Status.Conditions) != 2 && r.Status.Certificate == nil {
				t.Errorf("it became %+v", r.Status)
			}
		})
	}
}

// A request that was approved is signed.
func Example() {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		fmt.Println(err)
		return
	}
	r := asking(key, kubelet, nil, clientAuth)
	r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: "Approved", Status: "True"}}
	authority, err := pki.New("kubernetes")
	if err != nil {
		fmt.Println(err)
		return
	}
	in := csrsigning.Sources{Requests: informer.New[*request](fixed{r}, informer.Options{})}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	write := client.Updater(updater(func(obj *request) {
		block, _ := pem.Decode(obj.Status.Certificate)
		c, err := x509.ParseCertificate(block.Bytes)
		fmt.Println(c.Subject, err)
		stop()
	}))
	loop := controllers.NewLoop(csrsigning.New(in, write, authority, csrsigning.Options{}), controllers.Options{})
	fmt.Println(lifecycle.Group(in.Requests, loop).Run(ctx))
	// Output:
	// CN=system:node:n,O=system:nodes <nil>
	// <nil>
}

// updater is a client that shows what it is given.
type updater func(*request)

func (u updater) Update(_ context.Context, _ client.Target, obj runtime.Object, _ metav1.UpdateOptions) (runtime.Object, error) {
	u(obj.(*request))
	return obj, nil
}
