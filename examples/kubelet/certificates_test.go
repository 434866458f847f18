package main

import (
	"context"
	"crypto/tls"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/keelson-dev/keelson/client/kubeconfig"
	"github.com/keelson-dev/keelson/internal/clusterprocess"
	nodecertificates "github.com/keelson-dev/keelson/node/certificates"
	"github.com/keelson-dev/keelson/pki"
)

// TestJoin: with credentials for bootstrapping, a node gets a certificate and a kubeconfig of its own, as which the API server
// knows it, also after the certificate was replaced.
func TestJoin(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	server, err := clusterprocess.Build(ctx, t.TempDir())
	check(err)
	dir := filepath.Join(t.TempDir(), "cluster")
	cluster, err := server.Start(ctx, dir, "--disable", "nodes")
	check(err)
	defer func() { check(cluster.Interrupt()) }()
	config, err := cluster.Config()
	check(err)
	admin, err := kubernetes.NewForConfig(config)
	check(err)
	for role, group := range map[string]string{
		"system:node-bootstrapper": "joiners",
		"system:certificates.k8s.io:certificatesigningrequests:nodeclient":     "joiners",
		"system:certificates.k8s.io:certificatesigningrequests:selfnodeclient": "system:nodes",
	} {
		_, err := admin.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: group}},
		}, metav1.CreateOptions{})
		check(err)
	}
	authority, err := pki.Open(filepath.Join(dir, "pki"), "kubernetes")
	check(err)
	joiner, err := authority.Issue(pki.Subject{Name: "joiner", Groups: []string{"joiners"}}, time.Hour)
	check(err)
	root := t.TempDir()
	s := settings{name: "n1", root: filepath.Join(root, "kubelet"), kubeconfig: filepath.Join(root, "own"), certificates: certificates{bootstrap: filepath.Join(root, "boot"), rotateClient: true}}
	check(kubeconfig.Add(ctx, s.bootstrap, kubeconfig.Entry{Name: "c", Server: cluster.URL, CA: authority.PEM(), Certificate: joiner.Certificate, Key: joiner.Key}))

	var out strings.Builder
	check(join(ctx, s, &out))
	if !strings.Contains(out.String(), "requesting a certificate for node n1") {
		t.Errorf("it says %q", out.String())
	}
	access, err := kubeconfig.Load(kubeconfig.Options{Path: s.kubeconfig})
	check(err)
	client, err := kubernetes.NewForConfig(access.Config)
	check(err)
	known := func() {
		t.Helper()
		me, err := client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		check(err)
		if got := me.Status.UserInfo.Username; got != "system:node:n1" {
			t.Errorf("the API server knows it as %s", got)
		}
	}
	known()
	before, err := tls.LoadX509KeyPair(s.clientFile(), s.clientFile())
	check(err)

	out.Reset()
	check(join(ctx, s, &out))
	if out.Len() > 0 {
		t.Errorf("it joins again: %s", out.String())
	}
	n := &node{settings: s, config: access.Config}
	check(n.rotate())
	check(n.runs[0].(*nodecertificates.Certificate).Renew(ctx))
	after, err := tls.LoadX509KeyPair(s.clientFile(), s.clientFile())
	check(err)
	if before.Leaf.SerialNumber.Cmp(after.Leaf.SerialNumber) == 0 {
		t.Error("the certificate is not replaced")
	}
	client, err = kubernetes.NewForConfig(access.Config)
	check(err)
	known()
}
