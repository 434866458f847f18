package authentication_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"flag"
	mathrand "math/rand/v2"
	"os"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/authn/serviceaccount"
)

var (
	requests = flag.Int("requests", 20_000, "how many random tokens to compare")
	seed     = flag.Uint64("seed", 1, "of what is random")
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(m.Run())
}

const issuer = "https://kubernetes.default.svc"

type objects[T any] map[string]*T

// Get is keelson's way to read.
func (o objects[T]) Get(namespace, name string) (*T, bool) {
	obj, ok := o[namespace+"/"+name]
	return obj, ok
}

// find is upstream's way to read.
func (o objects[T]) find(resource, namespace, name string) (*T, error) {
	if obj, ok := o.Get(namespace, name); ok {
		return obj, nil
	}
	return nil, apierrors.NewNotFound(corev1.Resource(resource), name)
}

// state has an object of each kind that lives (a), was deleted long ago (b), was deleted just now (c), and will be
// deleted (d). It implements upstream's ServiceAccountTokenGetter.
type state struct {
	accounts objects[corev1.ServiceAccount]
	pods     objects[corev1.Pod]
	secrets  objects[corev1.Secret]
	nodes    objects[corev1.Node]
}

func newState() *state {
	s := &state{objects[corev1.ServiceAccount]{}, objects[corev1.Pod]{}, objects[corev1.Secret]{}, objects[corev1.Node]{}}
	for name, deleted := range map[string]time.Duration{"a": 0, "b": -2 * time.Minute, "c": -30 * time.Second, "d": time.Hour} {
		meta := metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)}
		if deleted != 0 {
			meta.DeletionTimestamp = &metav1.Time{Time: time.Now().Add(deleted)}
		}
		s.accounts["ns/"+name] = &corev1.ServiceAccount{ObjectMeta: meta}
		s.pods["ns/"+name] = &corev1.Pod{ObjectMeta: meta}
		s.secrets["ns/"+name] = &corev1.Secret{ObjectMeta: meta}
		meta.Namespace = ""
		s.nodes["/"+name] = &corev1.Node{ObjectMeta: meta}
	}
	return s
}

func (s *state) sources() serviceaccount.Sources {
	return serviceaccount.Sources{ServiceAccounts: s.accounts, Pods: s.pods, Secrets: s.secrets, Nodes: s.nodes}
}

func (s *state) GetServiceAccount(_ context.Context, namespace, name string) (*corev1.ServiceAccount, error) {
	return s.accounts.find("serviceaccounts", namespace, name)
}

func (s *state) GetPod(_ context.Context, namespace, name string) (*corev1.Pod, error) {
	return s.pods.find("pods", namespace, name)
}

func (s *state) GetSecret(_ context.Context, namespace, name string) (*corev1.Secret, error) {
	return s.secrets.find("secrets", namespace, name)
}

// Tokens bound to webhook configurations are not issued here: there are none.
func (s *state) GetValidatingWebhookConfiguration(_ context.Context, name string) (*admissionv1.ValidatingWebhookConfiguration, error) {
	return nil, apierrors.NewNotFound(schema.GroupResource{Group: admissionv1.GroupName, Resource: "validatingwebhookconfigurations"}, name)
}

func (s *state) GetMutatingWebhookConfiguration(_ context.Context, name string) (*admissionv1.MutatingWebhookConfiguration, error) {
	return nil, apierrors.NewNotFound(schema.GroupResource{Group: admissionv1.GroupName, Resource: "mutatingwebhookconfigurations"}, name)
}

func (s *state) GetNode(_ context.Context, name string) (*corev1.Node, error) {
	return s.nodes.find("nodes", "", name)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func newKey() *ecdsa.PrivateKey { return must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)) }

// dice makes reproducible random choices.
type dice struct{ *mathrand.Rand }

func newDice() dice { return dice{mathrand.New(mathrand.NewPCG(*seed, 0))} }

func (d dice) pick(of ...any) any    { return of[d.IntN(len(of))] }
func (d dice) one(in int) bool       { return d.IntN(in) == 0 }
func (d dice) name(of string) string { return string(of[d.IntN(len(of))]) }
