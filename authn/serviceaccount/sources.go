package serviceaccount

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Getter reads one object by name, and returns false if it does not exist; nodes have no namespace. It should return
// the newest state: a token is valid as long as its objects are found. A registry.Live implements it, and so does an
// informer, which may lag.
type Getter[T any] interface {
	Get(namespace, name string) (T, bool)
}

// Sources are where a Verifier looks up accounts and bound objects. ServiceAccounts is required; without one of the
// others, tokens bound to its kind are refused.
type Sources struct {
	ServiceAccounts Getter[*corev1.ServiceAccount]
	Pods            Getter[*corev1.Pod]
	Secrets         Getter[*corev1.Secret]
	Nodes           Getter[*corev1.Node]
}

// check reports whether all objects that a token depends on exist, with the UIDs that it names.
func (s *Sources) check(k *kubernetes, now time.Time) error {
	gone := now.Add(-leeway) // an earlier deletion time ends the token
	if err := s.checkAccount(k, gone); err != nil {
		return err
	}
	if k.Secret != nil {
		if err := bound(s.Secrets, "secret", k.Namespace, k.Secret, gone); err != nil {
			return err
		}
	}
	if k.Pod != nil {
		// The node beside it is only informational.
		return bound(s.Pods, "pod", k.Namespace, k.Pod, gone)
	}
	if k.Node != nil {
		return bound(s.Nodes, "node", "", k.Node, gone)
	}
	return nil
}

func (s *Sources) checkAccount(k *kubernetes, gone time.Time) error {
	account, ok := s.ServiceAccounts.Get(k.Namespace, k.ServiceAccount.Name)
	switch {
	case !ok:
		return refuse(ErrInvalidated, "serviceaccounts %q not found", k.ServiceAccount.Name)
	case string(account.UID) != k.ServiceAccount.UID:
		return refuse(ErrInvalidated, "service account UID (%s) does not match claim (%s)", account.UID, k.ServiceAccount.UID)
	case deleted(account, gone):
		return refuse(ErrInvalidated, "service account %s/%s has been deleted", k.Namespace, k.ServiceAccount.Name)
	}
	return nil
}

// bound reports whether the object that a token is bound to exists.
func bound[T metav1.Object](in Getter[T], kind, namespace string, r *ref, gone time.Time) error {
	at := r.Name
	if namespace != "" {
		at = namespace + "/" + at
	}
	if in == nil {
		return fmt.Errorf("%w: tokens bound to a %s are not accepted here", ErrInvalidated, kind)
	}
	obj, ok := in.Get(namespace, r.Name)
	switch {
	case !ok:
		return fmt.Errorf("%w: %s %s does not exist", ErrInvalidated, kind, at)
	case string(obj.GetUID()) != r.UID:
		return refuse(ErrInvalidated, "%s UID (%s) does not match service account %s ref claim (%s)", kind, obj.GetUID(), kind, r.UID)
	case deleted(obj, gone):
		return fmt.Errorf("%w: %s %s is deleted and awaiting removal", ErrInvalidated, kind, at)
	}
	return nil
}

func deleted(obj metav1.Object, gone time.Time) bool {
	t := obj.GetDeletionTimestamp()
	return t != nil && t.Time.Before(gone)
}
