package serviceaccounttoken_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/internal/trial"
	"github.com/keelson-dev/keelson/controllers/serviceaccounttoken"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/memory"
)

// caches are a controller without a loop, behind caches that show what the test puts into them.
type caches struct {
	*testing.T
	accounts *memory.Store[*corev1.ServiceAccount]
	secrets  *memory.Store[*corev1.Secret]
	server   trial.Server
	queue    trial.Queue
	c        *serviceaccounttoken.Controller
}

func withCaches(t *testing.T, test func(c *caches)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &caches{T: t, accounts: memory.New[*corev1.ServiceAccount](), secrets: memory.New[*corev1.Secret]()}
		in := serviceaccounttoken.Sources{
			Accounts: informer.New[*corev1.ServiceAccount](c.accounts, informer.Options{}), Secrets: informer.New[*corev1.Secret](c.secrets, informer.Options{}),
		}
		c.c = serviceaccounttoken.New(in, &c.server, issue, serviceaccounttoken.Options{})
		if synced := c.c.Watch(&c.queue); len(synced) != 2 {
			t.Errorf("it waits for %d caches", len(synced))
		}
		controllerstest.Go(t, in.Accounts, in.Secrets)
		test(c)
	})
}

// reconcile expects an error with this text, or none, and these requests.
func (c *caches) reconcile(failure string, asked ...string) {
	c.Helper()
	synctest.Wait()
	c.server.Take()
	result, err := c.c.Reconcile(c.Context(), controllers.Key{Namespace: "ns", Name: "robot"})
	if result.RequeueAfter != 0 || (failure == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), failure) {
		c.Errorf("got %v, %v; want %q", result, err, failure)
	}
	if got := c.server.Take(); !slices.Equal(got, asked) {
		c.Errorf("requests %q, want %q", got, asked)
	}
}

func conflict() error {
	return apierrors.NewConflict(corev1.Resource("x"), "x", errors.New("changed"))
}

func missing() error { return apierrors.NewNotFound(corev1.Resource("x"), "x") }

// TestAnswers: what the server says counts for more than the caches, and what it fails to say is asked again.
func TestAnswers(t *testing.T) {
	const getAccount, getSecret, update, deletion = "get serviceaccounts", "get secrets", "update secrets", "delete secrets"
	for name, tt := range map[string]struct {
		hidden  bool // whether the cache shows no account
		to      func(c *caches, s *corev1.Secret)
		live    runtime.Object // the secret that the server has, if it is another one
		failure string
		asked   []string
	}{
		"unnamed":                     {to: func(_ *caches, s *corev1.Secret) { s.Annotations = nil }},
		"shown":                       {asked: []string{getSecret, update}},
		"not shown yet":               {hidden: true, asked: []string{getAccount, getSecret, update}},
		"not shown yet, its own":      {hidden: true, to: of("1"), asked: []string{getAccount, getSecret, update}},
		"not shown, of another life":  {hidden: true, to: of("0"), asked: []string{getAccount, deletion}},
		"shown of another life":       {to: of("0"), asked: []string{getAccount, deletion}},
		"no account":                  {hidden: true, to: answers(getAccount, missing()), asked: []string{getAccount, deletion}},
		"no word about the account":   {hidden: true, to: answers(getAccount, trial.ErrDown), failure: "account of secret ns/robot: down", asked: []string{getAccount}},
		"an account that is none":     {hidden: true, to: is("serviceaccounts", &corev1.Pod{}), failure: "answered with a *v1.Pod", asked: []string{getAccount}},
		"deletion fails":              {to: both(of("0"), answers(deletion, trial.ErrDown)), failure: "delete secret ns/robot: down", asked: []string{getAccount, deletion}},
		"deleted by another":          {to: both(of("0"), answers(deletion, missing())), asked: []string{getAccount, deletion}},
		"replaced by another":         {to: both(of("0"), answers(deletion, conflict())), asked: []string{getAccount, deletion}},
		"the secret is gone":          {to: answers(getSecret, missing()), asked: []string{getSecret}},
		"no word about the secret":    {to: answers(getSecret, trial.ErrDown), failure: "fill secret ns/robot: down", asked: []string{getSecret}},
		"a secret that is none":       {live: &corev1.Pod{}, failure: "answered with a *v1.Pod", asked: []string{getSecret}},
		"the secret has changed":      {live: &corev1.Secret{}, asked: []string{getSecret}},
		"changed while it is filled":  {to: answers(update, conflict()), asked: []string{getSecret, update}},
		"deleted while it is filled":  {to: answers(update, missing()), asked: []string{getSecret, update}},
		"filling fails":               {to: answers(update, trial.ErrDown), failure: "fill secret ns/robot: down", asked: []string{getSecret, update}},
		"full, without an authority":  {to: func(_ *caches, s *corev1.Secret) { s.Data = full() }},
		"its namespace alone is left": {to: lacking("namespace"), asked: []string{getSecret, update}},
		"its token alone is left":     {to: lacking("token"), asked: []string{getSecret, update}},
	} {
		t.Run(name, func(t *testing.T) {
			withCaches(t, func(c *caches) {
				a, s := account(), secret()
				a.UID, s.UID = "1", "2"
				c.server.Answer("serviceaccounts", a)
				if tt.to != nil {
					tt.to(c, s)
				}
				if !tt.hidden {
					c.accounts.Put(a)
				}
				c.server.Answer("secrets ns/robot", c.secrets.Put(s))
				if tt.live != nil {
					c.server.Answer("secrets ns/robot", tt.live)
				}
				c.reconcile(tt.failure, tt.asked...)
				switch sent := c.server.Sent().(type) {
				case metav1.DeleteOptions:
					if *sent.Preconditions.UID != "2" {
						t.Errorf("deleted with %+v", sent)
					}
				case *corev1.Secret:
					if sent.Data["ca.crt"] != nil {
						t.Error("it has an authority, and there is none")
					}
				}
			})
		})
	}
}

func full() map[string][]byte {
	return map[string][]byte{"token": []byte("t"), "namespace": []byte("ns")}
}

func lacking(what string) func(*caches, *corev1.Secret) {
	return func(_ *caches, s *corev1.Secret) {
		s.Data = full()
		delete(s.Data, what)
	}
}

func of(uid string) func(*caches, *corev1.Secret) {
	return func(_ *caches, s *corev1.Secret) { s.Annotations[corev1.ServiceAccountUIDKey] = uid }
}

func answers(what string, err error) func(*caches, *corev1.Secret) {
	return func(c *caches, _ *corev1.Secret) { c.server.Fail(what, err) }
}

func is(resource string, obj runtime.Object) func(*caches, *corev1.Secret) {
	return func(c *caches, _ *corev1.Secret) { c.server.Answer(resource, obj) }
}

func both(one, two func(*caches, *corev1.Secret)) func(*caches, *corev1.Secret) {
	return func(c *caches, s *corev1.Secret) {
		one(c, s)
		two(c, s)
	}
}

// TestReferences: what becomes of the account of a secret that is gone.
func TestReferences(t *testing.T) {
	const get, update = "get serviceaccounts", "update serviceaccounts"
	for name, tt := range map[string]struct {
		to      func(c *caches, s *corev1.Secret)
		failure string
		asked   []string
	}{
		"named":                   {asked: []string{get, update}},
		"named, of this life":     {to: of("1"), asked: []string{get, update}},
		"of another life":         {to: of("0")}, // the cache knows better
		"gone":                    {to: answers(get, missing()), asked: []string{get}},
		"no word":                 {to: answers(get, trial.ErrDown), failure: "remove the reference to secret ns/robot: down", asked: []string{get}},
		"none":                    {to: is("serviceaccounts", &corev1.Pod{}), failure: "answered with a *v1.Pod", asked: []string{get}},
		"made anew":               {to: both(of("1"), is("serviceaccounts", named("9", "robot"))), asked: []string{get}},
		"made anew, unknown":      {to: is("serviceaccounts", named("9", "robot")), asked: []string{get, update}},
		"named no more":           {to: is("serviceaccounts", named("1", "other")), asked: []string{get}},
		"gone while it is named":  {to: answers(update, missing()), asked: []string{get, update}},
		"changed by another":      {to: answers(update, conflict()), failure: "changed", asked: []string{get, update}},
		"of another type":         {to: func(_ *caches, s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque }},
		"of an account not shown": {to: func(_ *caches, s *corev1.Secret) { s.Annotations[corev1.ServiceAccountNameKey] = "nobody" }},
	} {
		t.Run(name, func(t *testing.T) {
			withCaches(t, func(c *caches) {
				a, s := account(), secret()
				a.UID = "1"
				c.accounts.Put(a)
				c.server.Answer("serviceaccounts", a)
				if tt.to != nil {
					tt.to(c, s)
				}
				c.reconcile("") // nothing is known of it
				c.secrets.Put(s)
				synctest.Wait()
				c.queue.Take()
				c.secrets.Delete("ns", "robot")
				synctest.Wait()
				if got := c.queue.Take(); (got == "ns/robot") != (s.Type == corev1.SecretTypeServiceAccountToken) {
					t.Errorf("queued %q", got)
				}
				c.reconcile(tt.failure, tt.asked...)
				if tt.failure != "" {
					c.reconcile(tt.failure, tt.asked...) // it is not forgotten
					return
				}
				c.reconcile("")
			})
		})
	}
}

func named(uid types.UID, secret string) *corev1.ServiceAccount {
	a := account()
	a.UID, a.Secrets = uid, []corev1.ObjectReference{{Name: secret}}
	return a
}

// TestQueued: which changes are looked at.
func TestQueued(t *testing.T) {
	withCaches(t, func(c *caches) {
		expect := func(what, want string) {
			t.Helper()
			synctest.Wait()
			if got := c.queue.Take(); got != want {
				t.Errorf("%s: queued %q, want %q", what, got, want)
			}
		}
		a := account()
		a.UID = "1"
		c.accounts.Put(a)
		expect("an account", "")
		s := secret()
		c.secrets.Put(s)
		expect("a secret", "ns/robot")
		s.Data = full()
		c.secrets.Put(s)
		expect("a change", "ns/robot")
		other := secret()
		other.Name, other.Annotations = "other", map[string]string{corev1.ServiceAccountNameKey: "bot", corev1.ServiceAccountUIDKey: "0"}
		c.secrets.Put(other)
		expect("one of another life", "ns/other")
		own := other.DeepCopy()
		own.Name, own.Annotations[corev1.ServiceAccountUIDKey] = "own", "1"
		c.secrets.Put(own)
		expect("one of this life", "ns/own")
		opaque := secret()
		opaque.Name, opaque.Type = "opaque", corev1.SecretTypeOpaque
		c.secrets.Put(opaque)
		expect("one of another type", "")
		foreign := secret()
		foreign.Name, foreign.Annotations[corev1.ServiceAccountNameKey] = "foreign", "nobody"
		c.secrets.Put(foreign)
		expect("one of another account", "ns/foreign")
		c.accounts.Delete("ns", "bot")
		expect("the account's end", "ns/own ns/robot")
	})
}
