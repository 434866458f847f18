package csrapproving_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/csrapproving"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/lifecycle"
	"github.com/keelson-dev/keelson/registry/authorization"
)

var requests = certificatesv1.SchemeGroupVersion.WithResource("certificatesigningrequests")

// bench is a running controller with an API, in a bubble.
type bench struct {
	*testing.T
	api *controllerstest.API

	mu      sync.Mutex
	allowed map[string]bool // "user subresource"
	asked   map[string]bool
}

// Authorize implements authz.Authorizer.
func (b *bench) Authorize(_ context.Context, a authz.Attributes) (authz.Decision, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if a.Verb != "create" || a.Group != "certificates.k8s.io" || a.Version != "*" || a.Resource != "certificatesigningrequests" || a.Name != "" || a.Namespace != "" {
		b.Errorf("asked for %+v", a)
	}
	if !slices.Equal(a.User.Groups, []string{"g"}) || a.User.UID != "7" || !slices.Equal(a.User.Extra["k"], []string{"v"}) {
		b.Errorf("asked for %+v", a.User)
	}
	key := a.User.Name + " " + a.Subresource
	b.asked[key] = true
	if b.allowed[key] {
		return authz.Decision{Verdict: authz.Allow}, nil
	}
	return authz.Decision{}, nil
}

func (b *bench) allow(keys ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, key := range keys {
		b.allowed[key] = true
	}
}

func inBubble(t *testing.T, test func(*bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t, allowed: map[string]bool{}, asked: map[string]bool{}}
		b.api = controllerstest.Start(t, controllerstest.Options{Kinds: authorization.Kinds(b, nil)})
		in := csrapproving.Sources{Requests: informer.New(controllerstest.Source[*certificatesv1.CertificateSigningRequest](b.api, requests),
			informer.Options{DetectMutations: func(err error) { t.Error(err) }})}
		controllerstest.Go(t, in.Requests, controllers.NewLoop(csrapproving.New(in, b.api), controllers.Options{}))
		synctest.Wait()
		test(b)
	})
}

// asking returns a request of a kubelet for a certificate in a name.
func asking(name string) *certificatesv1.CertificateSigningRequest {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		panic(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: name, Organization: []string{"system:nodes"}}}, key)
	if err != nil {
		panic(err)
	}
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "r"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
		},
	}
}

// create creates a request as a user.
func (b *bench) create(user string, r *certificatesv1.CertificateSigningRequest) {
	b.Helper()
	ctx := authn.NewContext(b.Context(), &authn.Identity{Name: user, UID: "7", Groups: []string{"g"}, Extra: map[string][]string{"k": {"v"}}})
	if _, err := b.api.Others.Create(ctx, client.Target{Resource: requests}, r, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
}

// conditions returns those of the request.
func (b *bench) conditions() []string {
	b.Helper()
	r, err := client.As[*certificatesv1.CertificateSigningRequest](b.api.Others.Get(b.Context(), client.Target{Resource: requests, Name: "r"}))
	if err != nil {
		b.Fatal(err)
	}
	var all []string
	for _, c := range r.Status.Conditions {
		all = append(all, fmt.Sprintf("%s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message))
	}
	return all
}

const (
	self   = "Approved=True AutoApproved: Auto approving self kubelet client certificate after SubjectAccessReview."
	anyone = "Approved=True AutoApproved: Auto approving kubelet client certificate after SubjectAccessReview."
)

func TestApproves(t *testing.T) {
	other := func(r *certificatesv1.CertificateSigningRequest) {
		r.Spec.SignerName = certificatesv1.KubeAPIServerClientSignerName
	}
	server := func(r *certificatesv1.CertificateSigningRequest) {
		r.Spec.Usages = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth}
	}
	const n, boot = "system:node:n", "system:bootstrap:x"
	for name, tt := range map[string]struct {
		user    string
		change  func(*certificatesv1.CertificateSigningRequest)
		allowed []string
		asked   []string
		want    []string
	}{
		"itself":                {n, nil, []string{n + " selfnodeclient", n + " nodeclient"}, []string{n + " selfnodeclient"}, []string{self}},
		"itself, as any":        {n, nil, []string{n + " nodeclient"}, []string{n + " nodeclient", n + " selfnodeclient"}, []string{anyone}},
		"another":               {boot, nil, []string{boot + " nodeclient"}, []string{boot + " nodeclient"}, []string{anyone}},
		"another, only itself":  {boot, nil, []string{boot + " selfnodeclient"}, []string{boot + " nodeclient"}, nil},
		"of another signer":     {n, other, []string{n + " selfnodeclient", n + " nodeclient"}, nil, nil},
		"not a kubelet's usage": {n, server, []string{n + " selfnodeclient", n + " nodeclient"}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bench) {
				b.allow(tt.allowed...)
				r := asking(n)
				if tt.change != nil {
					tt.change(r)
				}
				b.create(tt.user, r)
				if got := b.conditions(); !slices.Equal(got, tt.want) {
					t.Errorf("it has %q, want %q", got, tt.want)
				}
				b.mu.Lock()
				defer b.mu.Unlock()
				if got := slices.Sorted(maps.Keys(b.asked)); !slices.Equal(got, tt.asked) {
					t.Errorf("asked for %q, want %q", got, tt.asked)
				}
			})
		})
	}
}

// TestPermissionComesLater: a request that is refused is tried again.
func TestPermissionComesLater(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.create("system:bootstrap:x", asking("system:node:n"))
		time.Sleep(time.Second)
		synctest.Wait()
		if got := b.conditions(); got != nil {
			t.Fatalf("it has %q", got)
		}
		b.allow("system:bootstrap:x nodeclient")
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := b.conditions(); !slices.Equal(got, []string{anyone}) {
			t.Errorf("it has %q", got)
		}
	})
}

// TestDecided: what others have decided stays.
func TestDecided(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.create("system:node:n", asking("system:node:n"))
		at := client.Target{Resource: requests, Name: "r", Subresource: "approval"}
		r, err := client.As[*certificatesv1.CertificateSigningRequest](b.api.Others.Get(b.Context(), client.Target{Resource: requests, Name: "r"}))
		if err != nil {
			t.Fatal(err)
		}
		r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: "Denied", Status: corev1.ConditionTrue}}
		if _, err := b.api.Others.Update(b.Context(), at, r, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		b.allow("system:node:n selfnodeclient")
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := b.conditions(); !slices.Equal(got, []string{"Denied=True : "}) {
			t.Errorf("it has %q", got)
		}
	})
}

// TestFailures: failed requests to the server are made again.
func TestFailures(t *testing.T) {
	for _, verb := range []string{faults.Create, faults.Update} {
		inBubble(t, func(b *bench) {
			b.api.Inject(faults.Fault{Verb: verb, Err: errors.New("down")})
			b.allow("system:node:n selfnodeclient")
			b.create("system:node:n", asking("system:node:n"))
			if got := b.conditions(); got != nil {
				t.Errorf("%s failed, and it has %q", verb, got)
			}
			time.Sleep(200 * time.Millisecond)
			synctest.Wait()
			if got := b.conditions(); !slices.Equal(got, []string{self}) {
				t.Errorf("%s failed once, and it has %q", verb, got)
			}
		})
	}
}

// TestErrors: what Reconcile tells.
func TestErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		odd := asking("system:node:n")
		odd.Spec.Request = []byte("x")
		refused := asking("system:node:n")
		refused.Name, refused.Spec.Username = "refused", "system:node:n"
		all := fixed{odd, refused}
		for _, name := range []string{"Approved", "Denied"} { // of somebody who may not
			decided := refused.DeepCopy()
			decided.Name = name
			decided.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.RequestConditionType(name), Status: corev1.ConditionTrue}}
			all = append(all, decided)
		}
		issued, other := refused.DeepCopy(), refused.DeepCopy()
		issued.Name, issued.Status.Certificate = "issued", []byte("x")
		other.Name, other.Spec.SignerName = "other", certificatesv1.KubeAPIServerClientSignerName
		all = append(all, issued, other)
		api := controllerstest.Start(t, controllerstest.Options{Kinds: authorization.Kinds(authz.Func(
			func(context.Context, authz.Attributes) (authz.Decision, error) { return authz.Decision{}, nil }), nil)})
		in := csrapproving.Sources{Requests: informer.New[*certificatesv1.CertificateSigningRequest](all, informer.Options{})}
		controllerstest.Go(t, in.Requests)
		synctest.Wait()
		c := csrapproving.New(in, api)
		_, err := c.Reconcile(t.Context(), controllers.Key{Name: "r"})
		if err == nil || err.Error() != `unable to parse csr "r": PEM block type must be CERTIFICATE REQUEST` {
			t.Error(err)
		}
		_, err = c.Reconcile(t.Context(), controllers.Key{Name: "refused"})
		if !errors.Is(err, csrapproving.ErrRefused) || err.Error() != `recognized csr "refused" as [selfnodeclient nodeclient] but subject access review was not approved` {
			t.Error(err)
		}
		api.Inject(faults.Fault{Verb: faults.Create, Err: errors.New("down")})
		if _, err = c.Reconcile(t.Context(), controllers.Key{Name: "refused"}); err == nil || err.Error() != "down" {
			t.Error(err)
		}
		api.Reset()
		for _, name := range []string{"none", "Approved", "Denied", "issued", "other"} {
			if _, err := c.Reconcile(t.Context(), controllers.Key{Name: name}); err != nil || len(api.Writes()) > 0 {
				t.Errorf("%s: %v; %v", name, err, api.Writes())
			}
		}
	})
}

// fixed is a source whose objects do not change.
type fixed []*certificatesv1.CertificateSigningRequest

func (f fixed) List(context.Context) ([]*certificatesv1.CertificateSigningRequest, string, error) {
	return f, "1", nil
}

func (fixed) Watch(ctx context.Context, _ string) (informer.Stream[*certificatesv1.CertificateSigningRequest], error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// A node that may renew its certificate asks for one.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	everything := authz.Func(func(context.Context, authz.Attributes) (authz.Decision, error) {
		return authz.Decision{Verdict: authz.Allow}, nil
	})
	api, err := controllerstest.New(controllerstest.Options{
		Kinds: authorization.Kinds(everything, nil),
		Before: func(r faults.Request) error {
			fmt.Println(r.Verb, r.Target.Resource.Resource)
			if r.Verb == faults.Create {
				return nil
			}
			stop()
			return errors.New("enough")
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	r := asking("system:node:n")
	r.Spec.Username = "system:node:n"
	in := csrapproving.Sources{Requests: informer.New[*certificatesv1.CertificateSigningRequest](fixed{r}, informer.Options{})}
	loop := controllers.NewLoop(csrapproving.New(in, api), controllers.Options{})
	fmt.Println(lifecycle.Group(api, in.Requests, loop).Run(ctx))
	// Output:
	// create subjectaccessreviews
	// update certificatesigningrequests
	// <nil>
}
