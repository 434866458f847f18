package podcertificates_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/kubelet/volume/podcertificates"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/certificates"
	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/registry/direct"
	"github.com/keelson-dev/keelson/storage/memory"
)

const signerName = "example.com/trial"

// world is a registry of requests and a signer.
type world struct {
	t       *testing.T
	api     *direct.Client
	issuer  *x509.Certificate
	key     *ecdsa.PrivateKey
	events  []events.Event
	log     bytes.Buffer
	fail    func(what string) error // of the node's requests
	subject *podcertificates.Certificates
}

// node is the node's access to the API.
type node struct{ w *world }

func (n node) Get(ctx context.Context, t client.Target) (runtime.Object, error) {
	if err := n.w.fail("get " + t.Resource.Resource); err != nil {
		return nil, err
	}
	return n.w.api.Get(ctx, t)
}

func (n node) Create(ctx context.Context, t client.Target, obj runtime.Object, o metav1.CreateOptions) (runtime.Object, error) {
	if err := n.w.fail("create " + t.Resource.Resource); err != nil {
		return nil, err
	}
	return n.w.api.Create(ctx, t, obj, o)
}

// run runs a test in virtual time.
func run(t *testing.T, test func(t *testing.T, w *world)) {
	synctest.Test(t, func(t *testing.T) {
		reg, err := registry.New(memory.New(memory.Options{}), append(core.Kinds(core.Options{}), certificates.Kinds(nil)...), registry.Options{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- reg.Run(ctx) }()
		defer func() { stop(); <-done }()
		w := &world{t: t, api: direct.New(reg, direct.Options{}), fail: func(string) error { return nil }}
		w.restart("node-uid")
		if w.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			t.Fatal(err)
		}
		w.issuer = &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true, NotBefore: time.Now(), NotAfter: time.Now().AddDate(9, 0, 0)}
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"}}
		if _, err := w.api.Create(ctx, client.Target{Resource: corev1.SchemeGroupVersion.WithResource("serviceaccounts"), Namespace: "default"}, account, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		test(t, w)
	})
}

// restart begins with a new process of the node.
func (w *world) restart(uid types.UID) {
	w.subject = podcertificates.New(node{w}, func() (string, types.UID) { return "n1", uid }, podcertificates.Options{
		Recorder: events.Func(func(e events.Event) { w.events = append(w.events, e) }), Logger: slog.New(slog.NewTextHandler(&w.log, nil)),
	})
}

func wanted(kind string) podcertificates.Request {
	return podcertificates.Request{
		Pod: &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "pod-uid"},
			Spec:       corev1.PodSpec{ServiceAccountName: "web"},
		},
		Volume: "tls", Source: 1,
		Projection: &corev1.PodCertificateProjection{
			SignerName: signerName, KeyType: kind, MaxExpirationSeconds: new(int32(7200)), UserAnnotations: map[string]string{"example.com/path": "/x"},
		},
	}
}

func (w *world) requests() []certificatesv1.PodCertificateRequest {
	w.t.Helper()
	list, err := client.As[*certificatesv1.PodCertificateRequestList](w.api.List(w.t.Context(), at(""), metav1.ListOptions{}))
	if err != nil {
		w.t.Fatal(err)
	}
	return list.Items
}

func at(name string) client.Target {
	return client.Target{Resource: certificatesv1.SchemeGroupVersion.WithResource("podcertificaterequests"), Namespace: "default", Name: name}
}

// open returns the one request that nobody has answered.
func (w *world) open() *certificatesv1.PodCertificateRequest {
	w.t.Helper()
	var found []*certificatesv1.PodCertificateRequest
	all := w.requests()
	for i := range all {
		if len(all[i].Status.Conditions) == 0 {
			found = append(found, &all[i])
		}
	}
	if len(found) != 1 {
		w.t.Fatalf("%d requests are open", len(found))
	}
	return found[0]
}

func (w *world) finish(r *certificatesv1.PodCertificateRequest, kind, reason string) {
	w.t.Helper()
	r.Status.Conditions = []metav1.Condition{{Type: kind, Status: "True", Reason: reason, Message: "so it is", LastTransitionTime: metav1.Now()}}
	to := at(r.Name)
	to.Subresource = "status"
	if _, err := w.api.Update(w.t.Context(), to, r, metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// issue signs the open request: for two hours, to be replaced after one.
func (w *world) issue() {
	w.t.Helper()
	r := w.open()
	asked, err := x509.ParseCertificateRequest(r.Spec.StubPKCS10Request)
	if err != nil {
		w.t.Fatal(err)
	}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(int64(len(w.requests()))), NotBefore: time.Now(), NotAfter: time.Now().Add(2 * time.Hour), DNSNames: []string{"web"}}
	der, err := x509.CreateCertificate(rand.Reader, leaf, w.issuer, asked.PublicKey, w.key)
	if err != nil {
		w.t.Fatal(err)
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		w.t.Fatal(err)
	}
	r.Status.CertificateChain = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	r.Status.NotBefore, r.Status.NotAfter = new(metav1.NewTime(made.NotBefore)), new(metav1.NewTime(made.NotAfter))
	r.Status.BeginRefreshAt = new(metav1.NewTime(time.Now().Add(time.Hour)))
	w.finish(r, "Issued", "Signed")
}

// get returns the bundle after having checked that it is a pair.
func (w *world) get(r podcertificates.Request) podcertificates.Bundle {
	w.t.Helper()
	b, err := w.subject.Certificate(w.t.Context(), r)
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := tls.X509KeyPair(b.Chain, b.Key); err != nil {
		w.t.Fatal(err)
	}
	return b
}

func (w *world) refused(r podcertificates.Request, want string) error {
	w.t.Helper()
	_, err := w.subject.Certificate(w.t.Context(), r)
	if err == nil || err.Error() != want {
		w.t.Errorf("got %v, want %s", err, want)
	}
	return err
}

// TestIssue: the first certificate is in use as soon as it is issued, by a request that says who wants it.
func TestIssue(t *testing.T) {
	for _, kind := range []string{"ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519", "RSA3072", "RSA4096"} {
		if testing.Short() && strings.HasPrefix(kind, "RSA") {
			continue
		}
		t.Run(kind, func(t *testing.T) {
			run(t, func(t *testing.T, w *world) {
				r := wanted(kind)
				go func() {
					time.Sleep(500 * time.Millisecond)
					w.issue()
				}()
				begun := time.Now()
				b := w.get(r)
				if d := time.Since(begun); d < 500*time.Millisecond || d > time.Second {
					t.Errorf("it took %v", d)
				}
				if in := time.Until(b.Next); in < time.Hour-time.Second || in > time.Hour+5*time.Minute {
					t.Errorf("replaced in %v", in)
				}
				q := w.requests()[0]
				if own := q.OwnerReferences; len(own) != 1 || own[0] != (metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "web", UID: "pod-uid"}) || !strings.HasPrefix(q.Name, "req-") {
					t.Errorf("made %+v", q.ObjectMeta)
				}
				s := q.Spec
				if s.SignerName != signerName || s.PodName != "web" || s.PodUID != "pod-uid" || s.ServiceAccountName != "web" || s.ServiceAccountUID == "" ||
					s.NodeName != "n1" || s.NodeUID != "node-uid" || *s.MaxExpirationSeconds != 7200 || s.UnverifiedUserAnnotations["example.com/path"] != "/x" {
					t.Errorf("asked for %+v", s)
				}
				if again := w.get(r); !bytes.Equal(again.Key, b.Key) || !bytes.Equal(again.Chain, b.Chain) || len(w.requests()) != 1 {
					t.Error("it is replaced at once")
				}
				if len(w.events) > 0 {
					t.Errorf("events %v", w.events)
				}
			})
		})
	}
}

// TestWaiting: while there is no certificate, the request is looked at more and more slowly, for a second or as long as the
// caller waits.
func TestWaiting(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		r := wanted("ED25519")
		var looks []time.Duration
		begun := time.Now()
		w.fail = func(what string) error {
			if what == "get podcertificaterequests" {
				looks = append(looks, time.Since(begun)/time.Millisecond)
			}
			return nil
		}
		w.refused(r, "credential bundle is not issued yet")
		if want := []time.Duration{0, 20, 60, 140, 300, 620, 940}; !slices.Equal(looks, want) || time.Since(begun) != 940*time.Millisecond {
			t.Errorf("looked after %d ms, gave up after %v", looks, time.Since(begun))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		begun = time.Now()
		if _, err := w.subject.Certificate(ctx, r); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != 100*time.Millisecond {
			t.Errorf("after %v: %v", time.Since(begun), err)
		}
	})
}

// TestChain: only certificates are taken from what the signer writes, and only what it means from its conditions.
func TestChain(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		r := wanted("ED25519")
		w.refused(r, "credential bundle is not issued yet")
		q := w.open()
		w.issue()
		q, err := client.As[*certificatesv1.PodCertificateRequest](w.api.Get(t.Context(), at(q.Name)))
		if err != nil {
			t.Fatal(err)
		}
		leaf := q.Status.CertificateChain
		block, _ := pem.Decode([]byte(leaf))
		block.Headers = map[string]string{"Comment": "mine"}
		for text, want := range map[string]string{
			leaf:                        leaf,
			"first\n" + leaf + "\nlast": leaf,
			leaf + "and\n" + string(pem.EncodeToMemory(block)): leaf + leaf,
		} {
			answer := q.DeepCopy()
			answer.Status.CertificateChain = text
			answer.Status.Conditions = slices.Concat([]metav1.Condition{{Type: "Strange", Status: "True"}}, answer.Status.Conditions, []metav1.Condition{{Type: "Denied", Status: "True"}})
			answer.Status.BeginRefreshAt, answer.Status.NotAfter = nil, nil
			c := podcertificates.New(fixed{node{w}, answer}, func() (string, types.UID) { return "n1", "node-uid" }, podcertificates.Options{})
			b, err := c.Certificate(t.Context(), r)
			if err != nil || string(b.Chain) != want {
				t.Errorf("%v, %s", err, b.Chain)
			}
			// A signer that names no times has it replaced at once.
			if time.Until(b.Next) != 10*time.Second {
				t.Errorf("next in %v", time.Until(b.Next))
			}
			w.fail = func(string) error { return errors.New("down") }
			if _, err := c.Certificate(t.Context(), r); err != nil { // its end and the failure are told to nobody
				t.Error(err)
			}
			w.fail = func(string) error { return nil }
		}
	})
}

// fixed is a node whose requests are all answered alike.
type fixed struct {
	node
	answer *certificatesv1.PodCertificateRequest
}

func (f fixed) Get(ctx context.Context, t client.Target) (runtime.Object, error) {
	if t.Resource.Resource == "podcertificaterequests" {
		return f.answer, nil
	}
	return f.node.Get(ctx, t)
}

// TestReplace: a certificate is replaced when its signer says so, by one with another key, and stays in use until then.
func TestReplace(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		r := wanted("ED25519")
		w.refused(r, "credential bundle is not issued yet")
		w.issue()
		first := w.get(r)
		time.Sleep(time.Until(first.Next) - time.Second)
		w.get(r)
		if len(w.requests()) != 1 {
			t.Error("it is replaced too early")
		}
		time.Sleep(time.Second)
		second := w.get(r)
		if len(w.requests()) != 2 || !bytes.Equal(second.Key, first.Key) || time.Until(second.Next) != 10*time.Second {
			t.Errorf("%d requests; next in %v", len(w.requests()), time.Until(second.Next))
		}
		time.Sleep(10 * time.Second)
		w.get(r)
		w.issue()
		third := w.get(r)
		if bytes.Equal(third.Key, first.Key) || bytes.Equal(third.Chain, first.Chain) || time.Until(third.Next) < 59*time.Minute || len(w.requests()) != 2 {
			t.Error("it is not replaced")
		}
		// Another source has its own, and another time for it.
		other := wanted("ED25519")
		other.Source = 0
		w.refused(other, "credential bundle is not issued yet")
		w.issue()
		if b := w.get(other); bytes.Equal(b.Key, third.Key) || b.Next.Equal(third.Next) {
			t.Error("sources share a certificate")
		}
		// A pod that is forgotten, or a new process, begins anew.
		w.subject.Forget("pod-uid")
		w.refused(r, "credential bundle is not issued yet")
		w.issue()
		w.get(r)
		w.restart("node-uid")
		w.refused(r, "credential bundle is not issued yet")
	})
}

// TestLate: while nobody issues the next one, a certificate stays in use; events tell once that it is late, and that it has
// ended.
func TestLate(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		r := wanted("ED25519")
		w.refused(r, "credential bundle is not issued yet")
		w.issue()
		b := w.get(r)
		told := func(want ...string) {
			t.Helper()
			var got []string
			for _, e := range w.events {
				if e.Type != corev1.EventTypeWarning || e.Regarding.UID != "pod-uid" || e.Regarding.Kind != "Pod" || e.Regarding.Name != "web" || e.Regarding.Namespace != "default" {
					t.Errorf("event %+v", e)
				}
				got = append(got, e.Reason+": "+e.Message)
			}
			if strings.Join(got, ", ") != strings.Join(want, ", ") {
				t.Errorf("told %q, want %q", got, want)
			}
		}
		for time.Since(b.Next) <= 10*time.Minute {
			told()
			b2 := w.get(r)
			time.Sleep(time.Until(b2.Next))
		}
		w.get(r)
		late := "CertificateOverdueForRefresh: PodCertificate refresh overdue"
		told(late)
		time.Sleep(time.Hour)
		w.get(r)
		w.get(r)
		told(late, "CertificateExpired: PodCertificate expired")
		w.issue()
		if next := w.get(r); bytes.Equal(next.Key, b.Key) {
			t.Error("it is not replaced")
		}
		if len(w.requests()) != 2 {
			t.Errorf("%d requests", len(w.requests()))
		}
	})
}

// TestRefused: what a signer denies or fails is final, the first time and later.
func TestRefused(t *testing.T) {
	for kind, want := range map[string]struct{ err, event string }{
		"Denied": {`PodCertificateRequest was permanently denied: reason="No" message="so it is"`, `was denied, reason="No", message="so it is"`},
		"Failed": {`PodCertificateRequest was permanently failed: reason="No" message="so it is"`, `failed, reason="No", message="so it is"`},
	} {
		for _, had := range []bool{false, true} {
			run(t, func(t *testing.T, w *world) {
				r := wanted("ED25519")
				w.refused(r, "credential bundle is not issued yet")
				if had {
					w.issue()
					time.Sleep(time.Until(w.get(r).Next))
					w.get(r)
				}
				q := w.open()
				w.finish(q, kind, "No")
				if err := w.refused(r, want.err); !errors.Is(err, podcertificates.ErrRefused) {
					t.Error(err)
				}
				w.refused(r, want.err)
				if len(w.events) != 1 || w.events[0].Reason != kind || w.events[0].Message != "PodCertificateRequest default/"+q.Name+" "+want.event {
					t.Errorf("events %+v", w.events)
				}
				time.Sleep(24 * time.Hour)
				w.refused(r, want.err)
				if more := len(w.requests()); more > 2 {
					t.Errorf("%d requests", more)
				}
			})
		}
	}
}

// TestTroubles: what goes wrong is said and tried again; a certificate in use stays.
func TestTroubles(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		r := wanted("ED25519")
		down := func(at string) {
			w.fail = func(what string) error {
				if what == at {
					return errors.New("down")
				}
				return nil
			}
		}
		down("get serviceaccounts")
		w.refused(r, "while fetching service account: down")
		down("create podcertificaterequests")
		w.refused(r, "while creating PodCertificateRequest: down")
		down("get podcertificaterequests")
		if _, err := w.subject.Certificate(t.Context(), r); err == nil || err.Error() != `while getting PodCertificateRequest "default/`+w.open().Name+`": down` {
			t.Error(err)
		}
		down("")
		unknown := wanted("DSA")
		unknown.Source = 7
		w.refused(unknown, `while generating keypair: unknown key type "DSA"`)

		// Whoever deletes a request has another one made.
		gone := w.open().Name
		if err := w.api.Delete(t.Context(), at(gone), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		w.refused(r, `PodCertificateRequest "default/`+gone+`" appears to have been deleted`)
		w.refused(r, "credential bundle is not issued yet")
		w.issue()
		b := w.get(r)
		time.Sleep(time.Until(b.Next))
		down("create podcertificaterequests")
		if again := w.get(r); !bytes.Equal(again.Key, b.Key) || time.Until(again.Next) != 10*time.Second || !strings.Contains(w.log.String(), "down") {
			t.Errorf("it is gone; log %s", w.log.String())
		}
		down("")

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		r.Volume = "other"
		if _, err := w.subject.Certificate(ctx, r); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		w.restart("")
		w.refused(r, "while getting node object: the node is not registered yet")
		r.Pod.Spec.ServiceAccountName = "nobody"
		if _, err := w.subject.Certificate(t.Context(), r); !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
}
