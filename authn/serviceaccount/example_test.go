package serviceaccount_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/serviceaccount"
)

// oneAccount is the smallest source: a registry.Live or an informer in practice.
type oneAccount struct{ account *corev1.ServiceAccount }

func (o oneAccount) Get(namespace, name string) (*corev1.ServiceAccount, bool) {
	return o.account, namespace == o.account.Namespace && name == o.account.Name
}

func Example() {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader) // OpenKey keeps one in a file
	if err != nil {
		fmt.Println(err)
		return
	}
	const server = "https://kubernetes.default.svc.cluster.local"
	keys, _ := serviceaccount.NewKeys(key)
	issuer, _ := serviceaccount.NewIssuer(server, keys)
	accounts := oneAccount{&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u-1"}}}
	verifier, _ := serviceaccount.NewVerifier([]string{server}, keys, serviceaccount.Sources{ServiceAccounts: accounts}, serviceaccount.Options{})

	ctx := context.Background()
	token, _ := issuer.Issue(ctx, authn.Claims{
		Namespace: "default", ServiceAccount: authn.Ref{Name: "web", UID: "u-1"}, Audiences: []string{server},
		IssuedAt: time.Now(), Expires: time.Now().Add(time.Hour),
	})
	id, err := verifier.Verify(ctx, token)
	fmt.Println(id.Name, id.Groups, err)

	accounts.account.UID = "u-2" // deleted, and made again
	_, err = verifier.Verify(ctx, token)
	fmt.Println(err)
	// Output:
	// system:serviceaccount:default:web [system:serviceaccounts system:serviceaccounts:default] <nil>
	// service account UID (u-2) does not match claim (u-1)
}
