package cluster

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/requestheader"
	"github.com/keelson-dev/keelson/authn/x509"
	"github.com/keelson-dev/keelson/client"
)

// FrontProxy says which proxies may say in headers whose requests they forward.
type FrontProxy struct {
	// CA is the PEM of the authority of the proxies' certificates. It must not be that of users' certificates unless
	// Headers.AllowedNames names the proxies.
	CA []byte
	// Headers are those headers; the zero value means upstream's usual ones.
	Headers requestheader.Options
}

func (p *FrontProxy) authenticator() (authn.Authenticator, error) {
	pool, err := x509.Parse(p.CA)
	if err != nil {
		return nil, fmt.Errorf("%w: Server.FrontProxy.CA: %w", ErrOptions, err)
	}
	a, err := requestheader.New(x509.Static{Roots: pool}, p.Headers)
	if err != nil {
		return nil, fmt.Errorf("%w: Server.FrontProxy.Headers: %w", ErrOptions, err)
	}
	return a, nil
}

// trusted is what other servers need to know to authenticate clients as this one does.
func (c *Cluster) trusted() (map[string]string, error) {
	data := map[string]string{}
	if proxy := c.options.Server.FrontProxy; proxy != nil {
		published, err := proxy.Headers.Published(proxy.CA)
		if err != nil {
			return nil, err
		}
		maps.Copy(data, published)
	}
	if ca := c.options.Server.ClientCA; len(ca) > 0 {
		data["client-ca-file"] = string(ca)
	}
	return data, nil
}

// publishTrust publishes the authorities that verify clients' certificates, for other servers, such as those of upstream's
// scheduler and controller manager, and those of APIServices.
func (c *Cluster) publishTrust(ctx context.Context) error {
	data, err := c.trusted()
	if err != nil || len(data) == 0 {
		return err
	}
	t := client.Target{
		Resource:  corev1.SchemeGroupVersion.WithResource("configmaps"),
		Namespace: "kube-system", Name: "extension-apiserver-authentication",
	}
	d := c.direct()
	stored, err := d.Get(ctx, t)
	if apierrors.IsNotFound(err) {
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: t.Namespace, Name: t.Name}, Data: data}
		_, err = d.Create(ctx, t, m, metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	m := stored.(*corev1.ConfigMap)
	if maps.Equal(m.Data, data) {
		return nil
	}
	m.Data = data
	_, err = d.Update(ctx, t, m, metav1.UpdateOptions{})
	return err
}
