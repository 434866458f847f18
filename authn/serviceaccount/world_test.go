package serviceaccount_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/serviceaccount"
)

const (
	issuerURL = "https://kubernetes.default.svc.cluster.local"
	jti       = "11111111-2222-3333-4444-555555555555"
)

// objects are what is there of one kind, by namespace/name.
type objects[T metav1.Object] struct {
	mu sync.RWMutex
	at map[string]T
}

func (o *objects[T]) Get(namespace, name string) (obj T, ok bool) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	obj, ok = o.at[namespace+"/"+name]
	return obj, ok
}

func (o *objects[T]) set(obj T) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.at == nil {
		o.at = map[string]T{}
	}
	o.at[obj.GetNamespace()+"/"+obj.GetName()] = obj
}

func (o *objects[T]) remove(namespace, name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.at, namespace+"/"+name)
}

// world is a server's state: an account, and a pod, a secret and a node to bind to.
type world struct {
	accounts objects[*corev1.ServiceAccount]
	pods     objects[*corev1.Pod]
	secrets  objects[*corev1.Secret]
	nodes    objects[*corev1.Node]

	keys     *serviceaccount.Keys
	issuer   *serviceaccount.Issuer
	verifier *serviceaccount.Verifier
}

func meta(namespace, name, uid string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(uid)}
}

func newWorld(t testing.TB, key crypto.Signer) *world {
	t.Helper()
	w := &world{}
	w.accounts.set(&corev1.ServiceAccount{ObjectMeta: meta("default", "web", "sa-1")})
	w.pods.set(&corev1.Pod{ObjectMeta: meta("default", "web-0", "pod-1")})
	w.secrets.set(&corev1.Secret{ObjectMeta: meta("default", "hold", "secret-1")})
	w.nodes.set(&corev1.Node{ObjectMeta: meta("", "node-0", "node-1")})
	w.keys = must(serviceaccount.NewKeys(key))(t)
	w.issuer = must(serviceaccount.NewIssuer(issuerURL, w.keys))(t)
	w.verifier = must(serviceaccount.NewVerifier([]string{issuerURL}, w.keys, w.sources(), serviceaccount.Options{Audiences: []string{"api", "also"}}))(t)
	return w
}

func (w *world) sources() serviceaccount.Sources {
	return serviceaccount.Sources{ServiceAccounts: &w.accounts, Pods: &w.pods, Secrets: &w.secrets, Nodes: &w.nodes}
}

// claims are of a token for an hour that is bound to nothing.
func claims() authn.Claims {
	return authn.Claims{
		ID: jti, Namespace: "default", ServiceAccount: authn.Ref{Name: "web", UID: "sa-1"}, Audiences: []string{"api"},
		IssuedAt: time.Now(), Expires: time.Now().Add(time.Hour),
	}
}

func podClaims() authn.Claims {
	c := claims()
	c.Pod, c.Node = &authn.Ref{Name: "web-0", UID: "pod-1"}, &authn.Ref{Name: "node-0", UID: "node-1"}
	return c
}

func (w *world) issue(t testing.TB, c authn.Claims) string {
	t.Helper()
	return must(w.issuer.Issue(context.Background(), c))(t)
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func newEC(t testing.TB, curve elliptic.Curve) *ecdsa.PrivateKey {
	return must(ecdsa.GenerateKey(curve, rand.Reader))(t)
}

// rsaKey is made once, as it takes a while.
var rsaKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})
