// Package bootstraptoken reads the secrets of bootstrap tokens, with which nodes join that have no certificate yet.
//
// Such a secret is in kube-system, is of the type bootstrap.kubernetes.io/token and is called bootstrap-token- and the
// token's ID. Everything here is a pure function of its arguments.
package bootstraptoken

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// DefaultGroup is a group of all users who have a bootstrap token.
const DefaultGroup = "system:bootstrappers"

// UserPrefix and a token's ID are the name of its user.
const UserPrefix = "system:bootstrap:"

// namePrefix and a token's ID are the name of its secret.
const namePrefix = "bootstrap-token-"

// Usage is what a token can be used for.
type Usage string

// The usages of upstream.
const (
	Signing        Usage = "usage-bootstrap-signing"
	Authentication Usage = "usage-bootstrap-authentication"
)

// Keys of a token's secret.
const (
	idKey         = "token-id"
	secretKey     = "token-secret"
	expirationKey = "expiration"
	groupsKey     = "auth-extra-groups"
)

// Is reports whether a secret is one of a bootstrap token, whether or not it is complete.
func Is(s *corev1.Secret) bool {
	return s.Type == corev1.SecretTypeBootstrapToken && s.Namespace == "kube-system"
}

// Name returns the name of the secret of a token.
func Name(id string) string { return namePrefix + id }

// Split splits a token such as abcdef.0123456789abcdef into its ID and its secret part.
func Split(token string) (id, secret string, ok bool) {
	parts := regexp.MustCompile(`\A([a-z0-9]{6})\.([a-z0-9]{16})\z`).FindStringSubmatch(token)
	if parts == nil {
		return "", "", false
	}
	return parts[1], parts[2], true
}

// Read returns the ID and the secret part of a token that can be used now.
func Read(s *corev1.Secret, usage Usage, now time.Time) (id, secret string, ok bool) {
	id, secret = string(s.Data[idKey]), string(s.Data[secretKey])
	if _, expired := Expiration(s, now); expired || secret == "" || string(s.Data[string(usage)]) != "true" {
		return "", "", false
	}
	if !regexp.MustCompile(`\A[a-z0-9]{6}\z`).MatchString(id) || s.Name != Name(id) {
		return "", "", false
	}
	return id, secret, true
}

// Expiration returns how long a token is still valid, 0 if it is for ever, and whether it has expired. One whose expiration
// cannot be read has.
func Expiration(s *corev1.Secret, now time.Time) (left time.Duration, expired bool) {
	text := string(s.Data[expirationKey])
	if text == "" {
		return 0, false
	}
	end, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return 0, true
	}
	if left = end.Sub(now); left <= 0 {
		return 0, true
	}
	return left, false
}

// Groups returns the groups of a token's user, sorted.
func Groups(s *corev1.Secret) ([]string, error) {
	groups := []string{DefaultGroup}
	if extra := string(s.Data[groupsKey]); extra != "" {
		valid := regexp.MustCompile(`\Asystem:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]\z`)
		for group := range strings.SplitSeq(extra, ",") {
			if !valid.MatchString(group) {
				return nil, fmt.Errorf("bootstrap group %q is invalid (must match %s)", group, valid)
			}
			groups = append(groups, group)
		}
	}
	slices.Sort(groups)
	return slices.Compact(groups), nil
}
