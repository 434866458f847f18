package cluster

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
)

// publishClientCA publishes the authority that verifies clients' certificates, for other servers, such as those of
// upstream's scheduler and controller manager.
func (c *Cluster) publishClientCA(ctx context.Context) error {
	if len(c.options.Server.ClientCA) == 0 {
		return nil
	}
	t := client.Target{
		Resource:  corev1.SchemeGroupVersion.WithResource("configmaps"),
		Namespace: "kube-system", Name: "extension-apiserver-authentication",
	}
	data := map[string]string{"client-ca-file": string(c.options.Server.ClientCA)}
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
	if m.Data["client-ca-file"] == data["client-ca-file"] {
		return nil
	}
	m.Data = data
	_, err = d.Update(ctx, t, m, metav1.UpdateOptions{})
	return err
}
