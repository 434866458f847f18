package cluster_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/cluster"
)

// tokenSecret makes a secret for a token of the account default.
func tokenSecret(w *world) {
	w.t.Helper()
	_, err := w.cs.CoreV1().Secrets("default").Create(w.ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "robot", Annotations: map[string]string{corev1.ServiceAccountNameKey: "default"}},
		Type:       corev1.SecretTypeServiceAccountToken,
	}, metav1.CreateOptions{})
	w.check(err)
}

// robot returns the secret.
func (w *world) robot() *corev1.Secret {
	w.t.Helper()
	secret, err := w.cs.CoreV1().Secrets("default").Get(w.ctx, "robot", metav1.GetOptions{})
	w.check(err)
	return secret
}

func withoutAccountTokens(w *world) {
	tokenSecret(w)
	time.Sleep(time.Minute)
	if data := w.robot().Data; len(data) > 0 {
		w.t.Errorf("somebody filled the secret: %v", data)
	}
}

func withoutTokenCleaner(w *world) {
	tokenSecret(w)
	time.Sleep(time.Minute)
	if labels := w.robot().Labels; len(labels) > 0 {
		w.t.Errorf("somebody labelled the secret: %v", labels)
	}
}

// TestAccountToken: a secret gets a token with which its account is known, until the secret is deleted; its use is noted.
func TestAccountToken(t *testing.T) {
	inBubble(t, cluster.Options{}, func(t *testing.T, w *world) {
		_, err := w.cs.RbacV1().RoleBindings("default").Create(w.ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "robot"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: "default"}},
		}, metav1.CreateOptions{})
		w.check(err)
		tokenSecret(w)
		time.Sleep(time.Second)
		secret := w.robot()
		if string(secret.Data["namespace"]) != "default" || len(secret.Data["token"]) == 0 || secret.Annotations[corev1.ServiceAccountUIDKey] == "" {
			t.Fatalf("%+v", secret)
		}
		config := w.c.Anonymous()
		config.BearerToken = string(secret.Data["token"])
		robot := clientset(t, config)
		if _, err := robot.CoreV1().Pods("default").List(w.ctx, metav1.ListOptions{}); err != nil {
			t.Errorf("with the token: %v", err)
		}
		if got, want := w.robot().Labels["kubernetes.io/legacy-token-last-used"], time.Now().UTC().Format(time.DateOnly); got != want {
			t.Errorf("last used %q, want %q", got, want)
		}
		tracked, err := w.cs.CoreV1().ConfigMaps("kube-system").Get(w.ctx, "kube-apiserver-legacy-service-account-token-tracking", metav1.GetOptions{})
		if err != nil || tracked.Data["since"] != "2000-01-01" {
			t.Errorf("tracked since %v, %v", tracked, err)
		}
		w.check(w.cs.CoreV1().Secrets("default").Delete(w.ctx, "robot", metav1.DeleteOptions{}))
		if _, err := robot.CoreV1().Pods("default").List(w.ctx, metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
			t.Errorf("with the token of a deleted secret: %v", err)
		}
	})
}

// TestAccountGone: the secret goes with its account.
func TestAccountGone(t *testing.T) {
	inBubble(t, cluster.Options{Disable: []string{"serviceaccount-controller"}}, func(t *testing.T, w *world) {
		_, err := w.cs.CoreV1().ServiceAccounts("default").Create(w.ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
		w.check(err)
		tokenSecret(w)
		time.Sleep(time.Second)
		w.check(w.cs.CoreV1().ServiceAccounts("default").Delete(w.ctx, "default", metav1.DeleteOptions{}))
		time.Sleep(time.Second)
		if _, err := w.cs.CoreV1().Secrets("default").Get(w.ctx, "robot", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("%v", err)
		}
	})
}
