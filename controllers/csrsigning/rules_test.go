package csrsigning_test

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/csrsigning"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/pki"
)

// TestUsages: the legacy signer signs whatever it is asked for, though nobody can ask it any more.
func TestUsages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		authority, err := pki.New("kubernetes")
		if err != nil {
			t.Fatal(err)
		}
		_, key, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		old := func(name string, change func(*request), usages ...certificatesv1.KeyUsage) *request {
			r := asking(key, "kubernetes.io/legacy-unknown", named("ann"), usages...)
			r.Name = name
			r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: "Approved", Status: "True"}}
			if change != nil {
				change(r)
			}
			return r
		}
		in := csrsigning.Sources{Requests: informer.New[*request](fixed{
			old("all", nil, "signing", "content commitment", "key encipherment", "key agreement", "data encipherment", "cert sign", "crl sign", "encipher only", "decipher only",
				"netscape sgc", "client auth", "any", "server auth", "client auth", "code signing", "email protection", "s/mime", "ipsec end system", "ipsec tunnel", "ipsec user", "timestamping",
				"ocsp signing", "microsoft sgc", "netscape sgc"),
			old("unknown", nil, "x", "y"),
			old("unreadable", func(r *request) { r.Spec.Request = []byte("x") }),
			old("forged", func(r *request) { r.Spec.Request = forged(r.Spec.Request) }),
			old("failed once", func(r *request) {
				r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{Type: "Failed"})
			}),
			old("not failed", func(r *request) {
				r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{Type: "Failed", Status: "False"})
			}),
		}, informer.Options{})}
		controllerstest.Go(t, in.Requests)
		synctest.Wait()
		var kept keeper
		c := csrsigning.New(in, &kept, authority, csrsigning.Options{})
		for name, want := range map[string]string{
			"all": "", "not failed": "", "failed once": "-", "none": "-",
			"unknown":    `error auto signing csr: unrecognized usage values: ["x" "y"]`,
			"unreadable": `unable to parse csr "unreadable": PEM block type must be CERTIFICATE REQUEST`,
			"forged":     "error auto signing csr: unable to verify certificate request signature: x509: Ed25519 verification failure",
		} {
			kept.certificate = nil
			_, err := c.Reconcile(t.Context(), controllers.Key{Name: name})
			got := ""
			switch {
			case err != nil:
				got = err.Error()
			case kept.certificate == nil:
				got = "-"
			}
			if got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
			if name != "all" {
				continue
			}
			block, _ := pem.Decode(kept.certificate)
			made, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				t.Fatal(err)
			}
			if made.KeyUsage != 1<<9-1 || len(made.ExtKeyUsage) != 12 || !slices.IsSorted(made.ExtKeyUsage) {
				t.Errorf("it is for %b, %v", made.KeyUsage, made.ExtKeyUsage)
			}
		}
	})
}

// forged breaks the signature of a request.
func forged(data []byte) []byte {
	block, _ := pem.Decode(data)
	block.Bytes[len(block.Bytes)-1] ^= 1
	return pem.EncodeToMemory(block)
}

// TestExpiredAuthority: an authority that has ended signs nothing.
func TestExpiredAuthority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, key, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		r := asking(key, kubelet, nil, clientAuth)
		r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: "Approved", Status: "True"}}
		in := csrsigning.Sources{Requests: informer.New[*request](fixed{r}, informer.Options{})}
		controllerstest.Go(t, in.Requests)
		synctest.Wait()
		for age, want := range map[time.Duration]string{
			5 * time.Minute:   "error auto signing csr: the signer has expired: NotAfter=",
			5*time.Minute - 1: "error auto signing csr: refusing to sign a certificate that expired in the past: NotAfter=",
			0:                 "error auto signing csr: refusing to sign a certificate that expired in the past: NotAfter=",
			-time.Second:      "error auto signing csr: signed",
		} {
			end := ended(time.Now().Add(-age))
			_, err := csrsigning.New(in, &keeper{}, end, csrsigning.Options{}).Reconcile(t.Context(), controllers.Key{Name: "r"})
			if age >= 0 {
				want += end.NotAfter().String()
			}
			if err == nil || err.Error() != want {
				t.Errorf("%v: %v", age, err)
			}
		}
	})
}

// ended is an authority that ends at some time, and does not sign.
type ended time.Time

func (e ended) NotAfter() time.Time { return time.Time(e) }

func (ended) Sign(*x509.Certificate, crypto.PublicKey) ([]byte, error) {
	return nil, errors.New("signed")
}

// keeper keeps the certificate that is written last.
type keeper struct{ certificate []byte }

func (k *keeper) Update(_ context.Context, _ client.Target, obj runtime.Object, _ metav1.UpdateOptions) (runtime.Object, error) {
	k.certificate = obj.(*request).Status.Certificate
	return obj, nil
}

// fixed is a source whose objects do not change.
type fixed []*request

func (f fixed) List(context.Context) ([]*request, string, error) { return f, "1", nil }

func (fixed) Watch(ctx context.Context, _ string) (informer.Stream[*request], error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestShortest: whatever is asked for, a certificate lasts for ten minutes. Nobody can ask for less any more.
func TestShortest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		authority, err := pki.New("kubernetes")
		if err != nil {
			t.Fatal(err)
		}
		_, key, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		r := asking(key, kubelet, nil, clientAuth)
		r.Spec.ExpirationSeconds = new(int32(1))
		r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: "Approved", Status: "True"}}
		in := csrsigning.Sources{Requests: informer.New[*request](fixed{r}, informer.Options{})}
		controllerstest.Go(t, in.Requests)
		synctest.Wait()
		var kept keeper
		if _, err := csrsigning.New(in, &kept, authority, csrsigning.Options{}).Reconcile(t.Context(), controllers.Key{Name: "r"}); err != nil {
			t.Fatal(err)
		}
		block, _ := pem.Decode(kept.certificate)
		made, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		if left := time.Until(made.NotAfter).Round(time.Second); left != 10*time.Minute {
			t.Errorf("it lasts for %v", left)
		}
	})
}
