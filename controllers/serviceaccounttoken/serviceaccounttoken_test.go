package serviceaccounttoken_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/serviceaccounttoken"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/lifecycle"
)

func at(resource, name string) client.Target {
	return client.Target{Resource: corev1.SchemeGroupVersion.WithResource(resource), Namespace: "ns", Name: name}
}

// bench is a running controller with its API, in a bubble.
type bench struct {
	*testing.T
	api *controllerstest.API
}

func sources(api *controllerstest.API, o informer.Options) serviceaccounttoken.Sources {
	return serviceaccounttoken.Sources{
		Accounts: informer.New(controllerstest.Source[*corev1.ServiceAccount](api, at("serviceaccounts", "").Resource), o),
		Secrets:  informer.New(controllerstest.Source[*corev1.Secret](api, at("secrets", "").Resource), o),
	}
}

func issue(account *corev1.ServiceAccount, secret string) (string, error) {
	return "token of " + account.Name + " in " + secret, nil
}

func inBubble(t *testing.T, o controllerstest.Options, issue serviceaccounttoken.Issue, test func(*bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{t, controllerstest.Start(t, o)}
		in := sources(b.api, informer.Options{DetectMutations: func(err error) { b.Error(err) }})
		c := serviceaccounttoken.New(in, b.api, issue, serviceaccounttoken.Options{RootCA: []byte("ca")})
		if c.Name() != "serviceaccount-token-controller" {
			b.Errorf("named %s", c.Name())
		}
		controllerstest.Go(b, in.Accounts, in.Secrets, controllers.NewLoop(c, controllers.Options{}))
		synctest.Wait()
		test(b)
	})
}

func add[T informer.Object](b *bench, obj T) T {
	b.Helper()
	stored := controllerstest.Add(b, b.api, obj)
	synctest.Wait()
	return stored
}

func account() *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "bot"}, Secrets: []corev1.ObjectReference{{Name: "robot"}, {Name: "other"}}}
}

func secret() *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "robot", Annotations: map[string]string{corev1.ServiceAccountNameKey: "bot"}},
		Type:       corev1.SecretTypeServiceAccountToken,
	}
}

// shown returns a secret in short.
func (b *bench) shown() string {
	b.Helper()
	obj, err := b.api.Others.Get(b.Context(), at("secrets", "robot"))
	if apierrors.IsNotFound(err) {
		return "gone"
	}
	if err != nil {
		b.Fatal(err)
	}
	s := obj.(*corev1.Secret)
	return fmt.Sprintf("%s, %s, %s, known %t", s.Data["token"], s.Data["namespace"], s.Data["ca.crt"], s.Annotations[corev1.ServiceAccountUIDKey] != "")
}

func (b *bench) delete(t client.Target) {
	b.Helper()
	if err := b.api.Others.Delete(b.Context(), t, metav1.DeleteOptions{}); err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
}

const filled = "token of bot in robot, ns, ca, known true"

// TestSecrets: what becomes of a secret.
func TestSecrets(t *testing.T) {
	for name, tt := range map[string]struct {
		to   func(s *corev1.Secret)
		want string
	}{
		"empty":             {func(*corev1.Secret) {}, filled},
		"another token":     {func(s *corev1.Secret) { s.Data = map[string][]byte{"token": []byte("mine")} }, "mine, ns, ca, known true"},
		"an old authority":  {func(s *corev1.Secret) { s.Data = map[string][]byte{"token": []byte("mine"), "ca.crt": []byte("old")} }, "mine, ns, ca, known true"},
		"another namespace": {func(s *corev1.Secret) { s.Data = map[string][]byte{"namespace": []byte("other")} }, "token of bot in robot, other, ca, known true"},
		"complete": {func(s *corev1.Secret) {
			s.Data = map[string][]byte{"token": []byte("t"), "namespace": []byte("n"), "ca.crt": []byte("ca")}
		}, "t, n, ca, known false"},
		"of nobody":       {func(s *corev1.Secret) { s.Annotations[corev1.ServiceAccountNameKey] = "nobody" }, "gone"},
		"of another life": {func(s *corev1.Secret) { s.Annotations[corev1.ServiceAccountUIDKey] = "before" }, "gone"},
		"of another type": {func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque }, ", , , known false"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, controllerstest.Options{}, issue, func(b *bench) {
				add(b, account())
				s := secret()
				tt.to(s)
				add(b, s)
				if got := b.shown(); got != tt.want {
					b.Errorf("%s, want %s", got, tt.want)
				}
			})
		})
	}
}

// TestAccountDeleted: its tokens go, and no others.
func TestAccountDeleted(t *testing.T) {
	inBubble(t, controllerstest.Options{}, issue, func(b *bench) {
		add(b, account())
		add(b, secret())
		other := account()
		other.Name = "other"
		add(b, other)
		b.delete(at("serviceaccounts", "other"))
		if got := b.shown(); got != filled {
			b.Errorf("without the other: %s", got)
		}
		b.delete(at("serviceaccounts", "bot"))
		if got := b.shown(); got != "gone" {
			b.Error(got)
		}
	})
}

// TestSecretDeleted: the account no longer names it.
func TestSecretDeleted(t *testing.T) {
	inBubble(t, controllerstest.Options{}, issue, func(b *bench) {
		add(b, account())
		add(b, secret())
		b.delete(at("secrets", "robot"))
		obj, err := b.api.Others.Get(b.Context(), at("serviceaccounts", "bot"))
		if err != nil {
			b.Fatal(err)
		}
		if got := obj.(*corev1.ServiceAccount).Secrets; len(got) != 1 || got[0].Name != "other" {
			b.Errorf("%+v", got)
		}
	})
}

// TestRetried: what fails is tried again.
func TestRetried(t *testing.T) {
	var calls atomic.Int32
	failing := func(account *corev1.ServiceAccount, secret string) (string, error) {
		if calls.Add(1) < 3 {
			return "", errors.New("no key")
		}
		return issue(account, secret)
	}
	o := controllerstest.Options{Before: func(r faults.Request) error {
		if (r.Verb == faults.Update || r.Verb == faults.Delete) && calls.Add(1) < 6 {
			return errors.New("lost")
		}
		return nil
	}}
	inBubble(t, o, failing, func(b *bench) {
		add(b, account())
		add(b, secret())
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := b.shown(); got != filled {
			b.Error(got)
		}
		calls.Store(4)
		b.delete(at("serviceaccounts", "bot"))
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := b.shown(); got != "gone" {
			b.Error(got)
		}
	})
}

// A secret gets the token of the account that it names. The API and the caches of it are in memory.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	a := account()
	a.UID = "1"
	api, err := controllerstest.New(controllerstest.Options{
		Objects: []informer.Object{a, secret()},
		Before: func(r faults.Request) error {
			if r.Verb == faults.Update {
				fmt.Println(r)
				stop()
			}
			return nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	in := sources(api, informer.Options{})
	loop := controllers.NewLoop(serviceaccounttoken.New(in, api, issue, serviceaccounttoken.Options{}), controllers.Options{})
	if err := lifecycle.Group(api, in.Accounts, in.Secrets, loop).Run(ctx); err != nil {
		fmt.Println(err)
	}
	// Output: update secrets ns/robot
}
